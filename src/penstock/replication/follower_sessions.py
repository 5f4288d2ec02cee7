"""Fetch sessions of followers, and which of their partitions have something to send.

A partition reports appends, new leaders and a new high watermark here, so that an incremental fetch reads only the
partitions that changed, not thousands of idle ones. `Wakeups` wakes a parked fetch once for everything that one
produce request appends. Called by partition.py and handlers/support/replica_fetch.py.
Refuses: FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from penstock.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from penstock.model.ids import NodeId
from penstock.ports.clock import Clock, Timer
from penstock.replication.fetch_session import EPOCH_MAX, FINAL_EPOCH, FIRST_EPOCH, NO_SESSION
from penstock.wire.hot.fetch import FetchPartition, FetchRequest

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

FORGOTTEN_AFTER_S: Final = 120.0
"""A session that is unused for this long is dropped: its follower has begun another one."""


class SessionEntry:
    """One partition of a follower's session: the last request, and the offsets that were last sent."""

    __slots__ = ("partition", "requested", "sent_mark", "sent_start", "session")

    def __init__(self, session: FollowerSession, requested: FetchPartition) -> None:
        self.session = session
        self.requested = requested
        self.partition: Partition | None = None
        self.sent_mark = -1
        self.sent_start = -1

    def attach(self, partition: Partition | None) -> None:
        """Receive the events of this partition instead of another."""
        if self.partition is not partition:
            if self.partition is not None:
                self.partition.remove_follower(self)
            self.partition = partition
            if partition is not None:
                partition.add_follower(self)

    def wrote(self, size: int) -> None:
        """Handle an append to the leader's log."""
        session = self.session
        session.ready[self] = None
        if session.waiting is not None:
            session.gained += size
            if session.gained >= session.missing:
                session.wake()

    def mark_moved(self) -> None:
        session = self.session
        session.moved[self] = None
        if session.marks_are_urgent and session.waiting is not None:
            session.urgent = True
            session.wake()

    def changed(self) -> None:
        """Handle a new leader or log start, which the follower must learn without delay."""
        session = self.session
        session.ready[self] = None
        session.moved[self] = None
        session.urgent = True
        if session.waiting is not None:
            session.wake()


class WaitingFollower(Protocol):
    """A parked fetch of a follower."""

    def look_again(self) -> None:
        """Answer if there is enough to send."""
        ...

    def finish(self) -> None:
        """Answer now, even with nothing to send."""
        ...


class FollowerSession:
    """One fetch session of one follower."""

    __slots__ = (
        "_deadline",
        "_timer",
        "_wakeups",
        "broker_epoch",
        "by_id",
        "client_id",
        "epoch",
        "gained",
        "id",
        "last_fetch_at",
        "marks_are_urgent",
        "missing",
        "moved",
        "node_id",
        "partitions",
        "ready",
        "urgent",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        wakeups: Wakeups,
        *,
        node_id: NodeId,
        client_id: str,
        broker_epoch: int,
        by_id: bool,
        now: float,
    ) -> None:
        self.id = session_id
        self._wakeups = wakeups
        self.node_id = node_id
        self.client_id = client_id
        self.broker_epoch = broker_epoch
        self.by_id = by_id
        self.epoch = 1
        self.last_fetch_at = now
        self.partitions: dict[tuple[bytes, int], SessionEntry] = {}
        # Partitions that may have records or an error to send, and those whose high watermark may have moved. The dicts
        # are ordered sets.
        self.ready: dict[SessionEntry, None] = {}
        self.moved: dict[SessionEntry, None] = {}
        self.waiting: WaitingFollower | None = None
        self.missing = 0
        self.gained = 0
        self.marks_are_urgent = False
        # Whether the next fetch must be answered without waiting.
        self.urgent = False
        self._deadline = 0.0
        self._timer: Timer | None = None

    def update(self, requested: FetchPartition) -> SessionEntry:
        key = (requested.topic, requested.index)
        entry = self.partitions.get(key)
        if entry is None:
            entry = self.partitions[key] = SessionEntry(self, requested)
        else:
            # Of thousands of equal topic ids, one for each of the requests that named a partition last, keep the first.
            requested.topic = entry.requested.topic
            entry.requested = requested
        return entry

    def remove(self, key: tuple[bytes, int]) -> None:
        entry = self.partitions.pop(key, None)
        if entry is not None:
            entry.attach(None)
            self.ready.pop(entry, None)
            self.moved.pop(entry, None)

    def park(self, waiting: WaitingFollower, missing: int) -> None:
        self.waiting = waiting
        self.missing = missing
        self.gained = 0

    def expire_at(self, deadline: float) -> None:
        """Answer the parked fetch by a deadline. One timer serves many fetches: it is set again if that moved."""
        self._deadline = deadline
        if self._timer is None:
            self._timer = self._wakeups.clock.call_later(deadline - self.last_fetch_at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self.waiting is None:
            return
        left = self._deadline - self._wakeups.clock.monotonic()
        if left > 0:
            self._timer = self._wakeups.clock.call_later(left, self._expire)
        else:
            self.waiting.finish()

    def wake(self) -> None:
        self._wakeups.add(self)

    def close(self) -> None:
        for entry in self.partitions.values():
            entry.attach(None)
        self.partitions.clear()
        self.ready.clear()
        self.moved.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waiting = None


class Wakeups:
    """Followers to answer: at the end of the request that appends records, or in the next turn of the event loop."""

    __slots__ = ("_sessions", "_timer", "clock", "deferred")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._sessions: list[FollowerSession] = []
        self._timer: Timer | None = None
        self.deferred = False
        """Whether wake-ups are collected: the request that sets this calls `run` before it returns."""

    def add(self, session: FollowerSession) -> None:
        if session not in self._sessions:
            self._sessions.append(session)
            if not self.deferred and self._timer is None:
                self._timer = self.clock.call_later(0, self._fire)

    def run(self) -> None:
        while self._sessions:
            sessions, self._sessions = self._sessions, []
            for session in sessions:
                if session.waiting is not None:
                    session.waiting.look_again()

    def _fire(self) -> None:
        self._timer = None
        self.run()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sessions.clear()


class FollowerSessions:
    """The fetch sessions of all followers of this node."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        # A follower begins a new session on each connection, so ids need not survive a restart.
        self._last_id = 0
        self._sessions: dict[tuple[int, int], FollowerSession] = {}

    def __iter__(self) -> Iterator[FollowerSession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, client_id: str, *, by_id: bool, now: float) -> FollowerSession:
        """Return the session of a request, updated except for the partitions that the request names."""
        node_id = request.replica_id
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            return self._begin(request, client_id, by_id=by_id, now=now)
        session = self._sessions.get((node_id, request.session_id))
        if session is None or session.broker_epoch != request.replica_epoch:
            # The follower has registered again: earlier requests came from another incarnation of the broker.
            raise FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if session.by_id != by_id:
            raise FetchSessionTopicIdError
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        session.last_fetch_at = now
        for key in request.forgotten:
            session.remove(key)
        return session

    def _begin(self, request: FetchRequest, client_id: str, *, by_id: bool, now: float) -> FollowerSession:
        node_id = request.replica_id
        for session in list(self._sessions.values()):
            # A fetcher has one session; those of its earlier connections have ended.
            outdated = session.broker_epoch < request.replica_epoch or session.client_id == client_id
            if (session.node_id == node_id and outdated) or now - session.last_fetch_at > FORGOTTEN_AFTER_S:
                self.drop(session)
        session_id = NO_SESSION
        if request.session_epoch == FIRST_EPOCH and request.partitions:
            session_id = self._last_id = self._last_id + 1 if self._last_id < EPOCH_MAX else 1
        session = FollowerSession(
            session_id,
            self._wakeups,
            node_id=NodeId(node_id),
            client_id=client_id,
            broker_epoch=request.replica_epoch,
            by_id=by_id,
            now=now,
        )
        if session_id != NO_SESSION:
            self._sessions[node_id, session_id] = session
        return session

    def drop(self, session: FollowerSession) -> None:
        self._sessions.pop((session.node_id, session.id), None)
        session.close()
