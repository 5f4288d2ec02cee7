"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes.

Owns the cache of sessions. A session keeps for each partition what was last asked and what
was last answered; an incremental answer holds only partitions with news.
Refuses: FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError.
"""

from collections import OrderedDict
from collections.abc import Iterable
from random import Random

from penstock.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from penstock.wire.hot.fetch import FetchPartition, FetchRequest, PartitionAnswer

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
# Over all sessions: some 200 MB. A client without a session names all its partitions in every request.
PARTITIONS_MAX = 500_000

PartitionKey = tuple[bytes, int]


class CachedPartition:
    """What a session remembers of one partition."""

    __slots__ = ("asked", "high_watermark", "log_start_offset")

    def __init__(self, asked: FetchPartition) -> None:
        self.asked = asked
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, answer: PartitionAnswer) -> bool:
        """Whether the answer must be sent; remembers what it says."""
        news = answer.size > 0 or answer.preferred_read_replica >= 0 or answer.diverging is not None
        if answer.high_watermark != self.high_watermark:
            self.high_watermark = answer.high_watermark
            news = True
        if answer.log_start_offset != self.log_start_offset:
            self.log_start_offset = answer.log_start_offset
            news = True
        if answer.error_code:
            # Forget the mark, so that the recovery from the error is news as well.
            self.high_watermark = -1
            news = True
        return news


class FetchSession:
    __slots__ = ("by_id", "epoch", "id", "last_used", "partitions")

    def __init__(self, session_id: int, *, by_id: bool, asked: Iterable[FetchPartition], now: float) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used = now
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict(
            ((partition.topic, partition.index), CachedPartition(partition)) for partition in asked
        )

    def update(self, request: FetchRequest, now: float) -> None:
        for partition in request.partitions:
            key = (partition.topic, partition.index)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.asked = partition
        for forgotten in request.forgotten:
            self.partitions.pop(forgotten, None)
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1
        self.last_used = now

    def remember(self, answers: Iterable[PartitionAnswer]) -> None:
        """A full answer goes out: everything in it is old news from now on."""
        for answer in answers:
            self.partitions[answer.topic, answer.index].has_news(answer)

    def news(self, answers: Iterable[PartitionAnswer]) -> list[PartitionAnswer]:
        """The answers worth sending. Who got records goes to the end, so that all get their turn."""
        changed = []
        for answer in answers:
            key = (answer.topic, answer.index)
            cached = self.partitions.get(key)
            if cached is not None and cached.has_news(answer):
                changed.append(answer)
                if answer.size:
                    self.partitions.move_to_end(key)
        return changed


class FetchSessions:
    """All sessions of this node, least recently used first."""

    def __init__(self, random: Random, *, count_max: int, eviction_s: float) -> None:
        self._random = random
        self._count_max = count_max
        self._eviction_s = eviction_s
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, *, by_id: bool, now: float) -> FetchSession | None:
        """The session of an incremental request, brought up to date; None for a full fetch."""
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if request.session_id in self._sessions:
                self._end(self._sessions[request.session_id])
            return None
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if session.by_id != by_id:
            raise FetchSessionTopicIdError
        count = len(session.partitions)
        session.update(request, now)
        self._partition_count += len(session.partitions) - count
        if self._partition_count > PARTITIONS_MAX and len(session.partitions) > count:
            self._end(session)
            raise FetchSessionIdNotFound
        self._sessions.move_to_end(session.id)
        if not session.partitions:
            self._end(session)
            return None
        return session

    def _end(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._partition_count -= len(session.partitions)

    def begin(self, request: FetchRequest, *, by_id: bool, now: float) -> FetchSession | None:
        """A new session for a full fetch that asks for one, if there is room."""
        if request.session_epoch != FIRST_EPOCH or not request.partitions:
            return None
        if len(self._sessions) >= self._count_max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used < self._eviction_s:
                return None
            self._end(oldest)
        if self._partition_count + len(request.partitions) > PARTITIONS_MAX:
            return None
        session_id = self._random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._random.randint(1, 2**31 - 1)
        session = self._sessions[session_id] = FetchSession(session_id, by_id=by_id, asked=request.partitions, now=now)
        self._partition_count += len(session.partitions)
        return session
