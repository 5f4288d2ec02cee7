"""Fetch sessions (KIP-227): a consumer names its partitions once, then only changes.

Owns the cache of sessions. A session keeps the last request and response for each partition, so that an incremental
response contains only the partitions that changed.
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
# Of all sessions: about 200 MB. A client without a session names all of its partitions in every request.
PARTITIONS_MAX = 500_000

PartitionKey = tuple[bytes, int]


class CachedPartition:
    """The last request and response for one partition of a session."""

    __slots__ = ("high_watermark", "log_start_offset", "requested")

    def __init__(self, requested: FetchPartition) -> None:
        self.requested = requested
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, answer: PartitionAnswer) -> bool:
        """Return whether a response must be sent, and store its offsets."""
        news = answer.size > 0 or answer.preferred_read_replica >= 0 or answer.diverging is not None
        if answer.high_watermark != self.high_watermark:
            self.high_watermark = answer.high_watermark
            news = True
        if answer.log_start_offset != self.log_start_offset:
            self.log_start_offset = answer.log_start_offset
            news = True
        if answer.error_code:
            # Forget the high watermark, so that the first response after the error is sent as well.
            self.high_watermark = -1
            news = True
        return news


class FetchSession:
    """The partitions of one consumer's session."""

    __slots__ = ("by_id", "epoch", "id", "last_used", "partitions")

    def __init__(self, session_id: int, *, by_id: bool, requested: Iterable[FetchPartition], now: float) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used = now
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict(
            ((partition.topic, partition.index), CachedPartition(partition)) for partition in requested
        )

    def update(self, request: FetchRequest, now: float) -> None:
        for partition in request.partitions:
            key = (partition.topic, partition.index)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.requested = partition
        for forgotten in request.forgotten:
            self.partitions.pop(forgotten, None)
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1
        self.last_used = now

    def remember(self, answers: Iterable[PartitionAnswer]) -> None:
        """Store a full response, so that later ones contain only changes."""
        for answer in answers:
            self.partitions[answer.topic, answer.index].has_news(answer)

    def news(self, answers: Iterable[PartitionAnswer]) -> list[PartitionAnswer]:
        """Return the partitions to send. Those with records move to the end, so that every partition gets its turn."""
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
    """All consumer sessions of this node, least recently used first."""

    def __init__(self, random: Random, *, count_max: int, eviction_s: float) -> None:
        self._random = random
        self._count_max = count_max
        self._eviction_s = eviction_s
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, *, by_id: bool, now: float) -> FetchSession | None:
        """Return the updated session of an incremental request; None for a full fetch."""
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
        """Create a session for a full fetch that requests one; return None if the cache is full."""
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
        session = self._sessions[session_id] = FetchSession(
            session_id, by_id=by_id, requested=request.partitions, now=now
        )
        self._partition_count += len(session.partitions)
        return session
