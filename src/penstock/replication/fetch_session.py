"""Fetch sessions (KIP-227): a consumer names its partitions once, then only changes.

Owns the cache of sessions. A session keeps the last request and response for each partition, so that an incremental
response contains only the partitions that changed. A fetch reads only the partitions in `ready`:

| a partition of a session | is in `ready` | is registered with its `Partition` |
|---|---|---|
| was named by the request, returned records or an error, or was not read yet | yes | while a fetch waits |
| had nothing to return (idle) | no | yes, until its first event |

So a fetch costs nothing for idle partitions, and a session whose client is gone costs one event per partition.
Refuses: FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from penstock.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from penstock.model.job import Job
from penstock.wire.hot.fetch import FetchPartition, FetchRequest, PartitionAnswer

if TYPE_CHECKING:
    from penstock.replication.partition import Partition
    from penstock.replication.waiting import WaitingFetch

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
# Of all sessions: about 200 MB. A client without a session names all of its partitions in every request.
PARTITIONS_MAX = 500_000

PARTITIONS_PER_STEP = 1000

PartitionKey = tuple[bytes, int]


class CachedPartition:
    """The last request and response for one partition of a session; receives the events of the partition."""

    __slots__ = ("_session", "_watched", "high_watermark", "log_start_offset", "requested")

    def __init__(self, session: FetchSession, requested: FetchPartition) -> None:
        self._session = session
        self._watched: Partition | None = None
        self.requested = requested
        self.high_watermark = -1
        self.log_start_offset = -1

    def watch(self, partition: Partition | None) -> None:
        """Receive the events of this partition instead of another; of none if it is None."""
        watched = self._watched
        if watched is not partition:
            if watched is not None:
                watched.waiters.remove_watcher(self)
            if partition is not None:
                partition.waiters.add_watcher(self)
            self._watched = partition

    def more_bytes(self, size: int) -> None:
        session = self._session
        session.ready[self] = None
        if session.waiting is None:
            # The next fetch reads the partition in any case.
            self.watch(None)
        else:
            session.waiting.more_bytes(size)

    def changed(self) -> None:
        session = self._session
        session.ready[self] = None
        self.watch(None)
        if session.waiting is not None:
            session.waiting.changed()

    def is_idle(self, answer: PartitionAnswer, *, committed_only: bool) -> bool:
        """Return whether the partition has nothing to return until its next event."""
        return (
            answer.size == 0
            and answer.error_code == 0
            and answer.high_watermark == self.high_watermark
            and answer.log_start_offset == self.log_start_offset
            and self.requested.offset >= (answer.last_stable_offset if committed_only else answer.high_watermark)
            and answer.preferred_read_replica < 0
            and answer.diverging is None
        )

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

    __slots__ = ("by_id", "epoch", "id", "last_used", "owner", "partitions", "ready", "waiting")

    def __init__(
        self, session_id: int, *, by_id: bool, requested: Iterable[FetchPartition], now: float, owner: object = None
    ) -> None:
        self.id = session_id
        self.owner = owner
        """The principal that began it, which alone may use it; None without an authorizer."""
        self.by_id = by_id
        self.epoch = 1
        self.last_used = now
        self.partitions: dict[PartitionKey, CachedPartition] = {
            (partition.topic, partition.index): CachedPartition(self, partition) for partition in requested
        }
        self.ready: dict[CachedPartition, None] = dict.fromkeys(self.partitions.values())
        """The partitions that the next fetch reads, in this order; an ordered set."""
        self.waiting: WaitingFetch | None = None

    def update(self, request: FetchRequest, now: float) -> None:
        for partition in request.partitions:
            key = (partition.topic, partition.index)
            cached = self.partitions.get(key)
            if cached is None:
                cached = self.partitions[key] = CachedPartition(self, partition)
            else:
                cached.requested = partition
            self.ready[cached] = None
        for forgotten in request.forgotten:
            removed = self.partitions.pop(forgotten, None)
            if removed is not None:
                removed.watch(None)
                self.ready.pop(removed, None)
        self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1
        self.last_used = now

    def reading_again(self) -> Job[None]:
        """Let the next fetch read all partitions. Those that are removed meanwhile stay removed."""
        keys = list(self.partitions)
        for begin in range(0, len(keys), PARTITIONS_PER_STEP):
            found = map(self.partitions.get, keys[begin : begin + PARTITIONS_PER_STEP])
            self.ready.update(dict.fromkeys(cached for cached in found if cached is not None))
            yield None

    def remember(self, answers: Iterable[PartitionAnswer]) -> None:
        """Store a full response, so that later ones contain only changes."""
        for answer in answers:
            self.partitions[answer.topic, answer.index].has_news(answer)

    def news(self, answers: Iterable[PartitionAnswer]) -> list[PartitionAnswer]:
        """Return the partitions to send. Those with records move to the end, so that every partition gets its turn."""
        changed = []
        for answer in answers:
            cached = self.partitions.get((answer.topic, answer.index))
            if cached is not None and cached.has_news(answer):
                changed.append(answer)
                if answer.size:
                    self.ready.pop(cached, None)
                    self.ready[cached] = None
        return changed

    def wait_with(self, fetch: WaitingFetch) -> None:
        """Park a fetch. An earlier one is answered, because a client sends the next when it has given up on it."""
        earlier, self.waiting = self.waiting, fetch
        if earlier is not None and earlier is not fetch:
            earlier.expired()

    def close(self) -> None:
        """Stop receiving events, and answer the fetch that waits."""
        for cached in self.partitions.values():
            cached.watch(None)
        # The partitions refer to the session: without this, all would live until a garbage collection.
        self.partitions.clear()
        self.ready.clear()
        if self.waiting is not None:
            self.waiting.changed()


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

    def find(self, request: FetchRequest, *, by_id: bool, now: float, owner: object = None) -> FetchSession | None:
        """Return the updated session of an incremental request; None for a full fetch."""
        session = self._sessions.get(request.session_id)
        if session is not None and session.owner != owner:
            session = None
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._end(session)
            return None
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

    def reading_all_again(self) -> Job[None]:
        """Let the next fetch of every session read all of its partitions: the rights of principals have changed."""
        for session in list(self._sessions.values()):
            if session.owner is not None:
                yield from session.reading_again()

    def _end(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._partition_count -= len(session.partitions)
        session.close()

    def begin(self, request: FetchRequest, *, by_id: bool, now: float, owner: object = None) -> FetchSession | None:
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
            session_id, by_id=by_id, requested=request.partitions, now=now, owner=owner
        )
        self._partition_count += len(session.partitions)
        return session
