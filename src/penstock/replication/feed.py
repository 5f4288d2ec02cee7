"""What one follower's fetch session asks of this node, and which of its partitions have news.

A partition that is written to, changes hands or moves its mark says so here; an incremental fetch then
looks only at those, not at the thousands that are quiet. Parked fetches of followers are woken through
`Wakeups`: once for all that one produce request writes. Called by partition.py and handlers/support/replica_fetch.py.
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
"""A session that nobody uses for so long belongs to a follower that has begun another."""


class Fed:
    """One partition of a follower's session: what was asked, what was last told."""

    __slots__ = ("asked", "feed", "partition", "sent_mark", "sent_start")

    def __init__(self, feed: Feed, asked: FetchPartition) -> None:
        self.feed = feed
        self.asked = asked
        self.partition: Partition | None = None
        self.sent_mark = -1
        self.sent_start = -1

    def join(self, partition: Partition | None) -> None:
        """Hear of the news of this partition, and of no other."""
        if self.partition is not partition:
            if self.partition is not None:
                self.partition.remove_feed(self)
            self.partition = partition
            if partition is not None:
                partition.add_feed(self)

    def wrote(self, size: int) -> None:
        """Bytes were appended to the leader's log."""
        feed = self.feed
        feed.ready[self] = None
        if feed.waiting is not None:
            feed.gained += size
            if feed.gained >= feed.missing:
                feed.wake()

    def mark_moved(self) -> None:
        feed = self.feed
        feed.moved[self] = None
        if feed.marks_are_urgent and feed.waiting is not None:
            feed.urgent = True
            feed.wake()

    def changed(self) -> None:
        """The partition changed hands, or its start has moved: the follower must hear of it at once."""
        feed = self.feed
        feed.ready[self] = None
        feed.moved[self] = None
        feed.urgent = True
        if feed.waiting is not None:
            feed.wake()


class WaitingFollower(Protocol):
    def look_again(self) -> None:
        """There is news."""
        ...

    def finish(self) -> None:
        """Answer now, news or not."""
        ...


class Feed:
    """One session of one follower."""

    __slots__ = (
        "_deadline",
        "_timer",
        "_wakeups",
        "broker_epoch",
        "by_id",
        "client_id",
        "epoch",
        "gained",
        "heard_at",
        "id",
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
        self.heard_at = now
        self.partitions: dict[tuple[bytes, int], Fed] = {}
        # Those that may have records or an error to tell, and those whose marks may have moved; dicts for their order.
        self.ready: dict[Fed, None] = {}
        self.moved: dict[Fed, None] = {}
        self.waiting: WaitingFollower | None = None
        self.missing = 0
        self.gained = 0
        self.marks_are_urgent = False
        # Whether there is something that the next fetch must not wait for.
        self.urgent = False
        self._deadline = 0.0
        self._timer: Timer | None = None

    def take(self, asked: FetchPartition) -> Fed:
        key = (asked.topic, asked.index)
        fed = self.partitions.get(key)
        if fed is None:
            fed = self.partitions[key] = Fed(self, asked)
        else:
            fed.asked = asked
        return fed

    def forget(self, key: tuple[bytes, int]) -> None:
        fed = self.partitions.pop(key, None)
        if fed is not None:
            fed.join(None)
            self.ready.pop(fed, None)
            self.moved.pop(fed, None)

    def park(self, waiting: WaitingFollower, missing: int) -> None:
        self.waiting = waiting
        self.missing = missing
        self.gained = 0

    def expire_at(self, deadline: float) -> None:
        """Answer what is parked by then. One timer serves many fetches: it looks again when the time has moved on."""
        self._deadline = deadline
        if self._timer is None:
            self._timer = self._wakeups.clock.call_later(deadline - self.heard_at, self._expire)

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
        for fed in self.partitions.values():
            fed.join(None)
        self.partitions.clear()
        self.ready.clear()
        self.moved.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waiting = None


class Wakeups:
    """Followers to be answered: at the end of the request that has news for them, else when the loop comes round."""

    __slots__ = ("_feeds", "_timer", "clock", "held")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._feeds: list[Feed] = []
        self._timer: Timer | None = None
        self.held = False
        """Whoever holds calls `run` before it returns."""

    def add(self, feed: Feed) -> None:
        if feed not in self._feeds:
            self._feeds.append(feed)
            if not self.held and self._timer is None:
                self._timer = self.clock.call_later(0, self._fire)

    def run(self) -> None:
        while self._feeds:
            feeds, self._feeds = self._feeds, []
            for feed in feeds:
                if feed.waiting is not None:
                    feed.waiting.look_again()

    def _fire(self) -> None:
        self._timer = None
        self.run()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._feeds.clear()


class Feeds:
    """The sessions of every follower of this node."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        # A follower begins a new session on each connection, so no number has to survive a restart.
        self._last_id = 0
        self._feeds: dict[tuple[int, int], Feed] = {}

    def __iter__(self) -> Iterator[Feed]:
        return iter(list(self._feeds.values()))

    def __len__(self) -> int:
        return len(self._feeds)

    def find(self, request: FetchRequest, client_id: str, *, by_id: bool, now: float) -> Feed:
        """The session of the request, brought up to date but for the partitions that it names."""
        node_id = request.replica_id
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            return self._begin(request, client_id, by_id=by_id, now=now)
        feed = self._feeds.get((node_id, request.session_id))
        if feed is None or feed.broker_epoch != request.replica_epoch:
            # Another registration of the follower: whatever it said before was said by another broker.
            raise FetchSessionIdNotFound
        if feed.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if feed.by_id != by_id:
            raise FetchSessionTopicIdError
        feed.epoch = feed.epoch + 1 if feed.epoch < EPOCH_MAX else 1
        feed.heard_at = now
        for key in request.forgotten:
            feed.forget(key)
        return feed

    def _begin(self, request: FetchRequest, client_id: str, *, by_id: bool, now: float) -> Feed:
        node_id = request.replica_id
        for feed in list(self._feeds.values()):
            # A fetcher has one session; whatever it had on another connection is over.
            outdated = feed.broker_epoch < request.replica_epoch or feed.client_id == client_id
            if (feed.node_id == node_id and outdated) or now - feed.heard_at > FORGOTTEN_AFTER_S:
                self.drop(feed)
        session_id = NO_SESSION
        if request.session_epoch == FIRST_EPOCH and request.partitions:
            session_id = self._last_id = self._last_id + 1 if self._last_id < EPOCH_MAX else 1
        feed = Feed(
            session_id,
            self._wakeups,
            node_id=NodeId(node_id),
            client_id=client_id,
            broker_epoch=request.replica_epoch,
            by_id=by_id,
            now=now,
        )
        if session_id != NO_SESSION:
            self._feeds[node_id, session_id] = feed
        return feed

    def drop(self, feed: Feed) -> None:
        self._feeds.pop((feed.node_id, feed.id), None)
        feed.close()
