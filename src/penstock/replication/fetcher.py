"""One connection to one leader, and the partitions that this node fetches from it.

One Fetch is in flight at a time, in an incremental session (KIP-227). A newly followed partition does not wait for it:
the leader answers a Fetch in flight when the next one arrives. Records are appended from the port's buffer. The next
Fetch is sent when everything appended is durable, or written if the topic does not sync appends. follower.py decides
about everything but ordinary records. A partition that fails is left out for a while; the others continue.
Driven by callbacks only: no task, and no timer per request.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, Protocol
from uuid import UUID

from penstock.config.settings import BrokerSettings
from penstock.model.errors import Corruption, CorruptMessage, InvalidRecord, Refusal, StorageError
from penstock.model.ids import NodeId
from penstock.ports.clock import Clock, Timer
from penstock.ports.network import Connection, Dialer, Session
from penstock.replication import follower
from penstock.replication.fetch_session import EPOCH_MAX
from penstock.replication.follower import Kind, Step
from penstock.replication.partition import Partition
from penstock.replication.throttle import Throttle
from penstock.storage.epoch_cache import EpochCache
from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.replica_fetch import Fetch, RequestedPartition, Row, read_response, write_request

log = logging.getLogger(__name__)

CONNECT_PAUSE_S: Final = 0.02
CONNECT_PAUSE_S_MAX: Final = 1.0
WATCH_S: Final = 1.0
THROTTLED_PAUSE_S: Final = 0.2
IN_FLIGHT_MAX: Final = 2
NAMED_MAX: Final = 300
"""Partitions that one request names: the leader takes about 8 microseconds for each. The next one names the rest."""
_OFFSET: Final = 3
"""The index of the fetch offset in a `RequestedPartition`."""

Key = tuple[bytes, int]


class FetcherContext(Protocol):
    """Everything that a fetcher needs from the node."""

    node_id: NodeId
    network: Dialer
    clock: Clock
    follower_throttle: Throttle

    def settings(self) -> BrokerSettings: ...

    def broker_epoch(self) -> int:
        """Return the epoch of this broker's registration, -1 before it is registered."""
        ...

    def address_of(self, node_id: NodeId) -> tuple[str, int] | None: ...

    @property
    def is_opening_many(self) -> bool:
        """Return whether many partitions begin to be followed one after the other, and should share requests."""
        ...

    def fetched(self, partition: Partition, leader_end: int) -> None:
        """Handle a response that was applied to a partition; the leader's log ended there."""
        ...

    def damaged(self, partition: Partition) -> None: ...


@lru_cache
def _bytes_of(topic_id: UUID) -> bytes:
    """Return the bytes of a topic id: one object for all partitions of the topic, which saves memory."""
    return topic_id.bytes


class Followed:
    """The state of one partition in the fetch session of a fetcher."""

    __slots__ = ("fetcher", "key", "leader_epoch", "named_in", "partition", "requested", "requested_in", "resumes")

    def __init__(self, partition: Partition, fetcher: Fetcher) -> None:
        self.partition = partition
        self.fetcher = fetcher
        self.key: Key = (_bytes_of(partition.topic_id), partition.index)
        self.leader_epoch = partition.leader_epoch
        # The values in the session, the request that added the partition, and the last request that named it.
        self.requested: RequestedPartition | None = None
        self.requested_in = -1
        self.named_in = -1
        self.resumes: Timer | None = None

    def became_durable(self) -> None:
        """Handle that more of the log is durable, or written if its topic does not sync appends."""
        self.fetcher.became_durable(self)

    def next_request(self, max_bytes: int) -> RequestedPartition:
        held = self.partition.log
        end = held.end_offset
        epoch = last_epoch(held.epochs, end)
        return (*self.key, self.leader_epoch, end, epoch, held.start_offset, max_bytes)


def last_epoch(epochs: EpochCache, end_offset: int) -> int:
    """Return the epoch of the last batch, ignoring an epoch in which this node led without writing."""
    return epochs.epoch_at(end_offset - 1) if end_offset > 0 else -1


class Fetcher:
    """Copies partitions from one leader."""

    def __init__(self, leader: NodeId, index: int, context: FetcherContext) -> None:
        self.leader = leader
        self._context = context
        self._clock = context.clock
        self._client_id = f"broker-{context.node_id}-fetcher-{index}".encode()
        self._fetch = Fetch(context.node_id)
        self._settings: BrokerSettings | None = None
        self._partition_bytes_max = 0
        self._followed: dict[Key, Followed] = {}
        # Partitions that the next request names, and partitions that it removes from the session.
        self._changed: dict[Followed, None] = {}
        self._removed: dict[Key, None] = {}
        self._unflushed: dict[Followed, None] = {}
        self._in_flight: deque[int] = deque()
        self._urgent = False
        self._connection: Connection | None = None
        self._dialing = False
        self._closed = False
        self._failures = 0
        self._last_answer_at = 0.0
        self._next_id = 0
        self._reconnect: Timer | None = None
        self._watch = self._clock.call_later(WATCH_S, self._check_timeout)

    # -- partitions ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: Partition) -> None:
        """Start to fetch a partition; one that is being fetched starts again in its current leader epoch."""
        self._drop(partition)
        followed = partition.followed = Followed(partition, self)
        self._followed[followed.key] = followed
        self._changed[followed] = None
        self._urgent = True
        # Records from an earlier role must be durable before they are reported as held.
        self._wait_until_durable(followed)
        self._send_next()

    def unfollow(self, partition: Partition) -> None:
        self._drop(partition)
        self._send_next()

    def _drop(self, partition: Partition) -> None:
        followed = self._followed.pop((_bytes_of(partition.topic_id), partition.index), None)
        if followed is None:
            return
        partition.followed = None
        if followed.resumes is not None:
            followed.resumes.cancel()
        self._remove_from_session(followed)
        self._unflushed.pop(followed, None)

    def _remove_from_session(self, followed: Followed) -> None:
        self._changed.pop(followed, None)
        if followed.requested is not None:
            followed.requested = None
            self._removed[followed.key] = None

    def _pause(self, followed: Followed, seconds: float) -> None:
        self._remove_from_session(followed)
        if followed.resumes is not None:
            followed.resumes.cancel()
        followed.resumes = self._clock.call_later(seconds, partial(self._resume, followed))

    def _resume(self, followed: Followed) -> None:
        followed.resumes = None
        self._changed[followed] = None
        self._urgent = True
        self._send_next()

    def became_durable(self, followed: Followed) -> None:
        held = followed.partition.log
        if held.durable_offset >= held.end_offset and followed in self._unflushed:
            del self._unflushed[followed]
            if not self._unflushed:
                self._send_next()

    def close(self) -> None:
        """Close the connection and drop all partitions."""
        self._closed = True
        for followed in list(self._followed.values()):
            self._drop(followed.partition)
        for timer in (self._watch, self._reconnect):
            if timer is not None:
                timer.cancel()
        self._hang_up()

    # -- requests ------------------------------------------------------------------------------

    def _send_next(self) -> None:
        """Send the next fetch if everything appended is durable and no other fetch is in flight."""
        if self._closed or not self._followed:
            return
        if self._connection is None:
            self._connect()
            return
        if self._unflushed or (self._in_flight and not self._may_interrupt()):
            return
        broker_epoch = self._context.broker_epoch()
        if broker_epoch < 0:
            self._retry_later(CONNECT_PAUSE_S)
            return
        self._send(broker_epoch)
        if self._may_interrupt():
            self._send(broker_epoch)

    def _may_interrupt(self) -> bool:
        """Return whether a newly followed partition may be requested while another fetch is in flight."""
        if not self._urgent or not self._changed or not self._fetch.session_epoch:
            return False
        return len(self._in_flight) < IN_FLIGHT_MAX and not self._context.is_opening_many

    def _send(self, broker_epoch: int) -> None:
        fetch, settings = self._fetch, self._context.settings()
        if fetch.session_epoch == 0:
            # A new session has no partitions yet.
            self._removed.clear()
            for followed in self._followed.values():
                if followed.resumes is None:
                    self._changed[followed] = None
        if settings is not self._settings:
            self._take_settings(settings)
        requested = self._requested_partitions()
        if fetch.session_epoch == 0 and not requested:
            return
        fetch.broker_epoch = broker_epoch
        assert self._connection is not None, "a fetch needs a connection"
        self._connection.send_now(
            (write_request(fetch, self._next_id, self._client_id, requested, list(self._removed)),)
        )
        self._removed.clear()
        self._urgent = bool(self._changed)
        if not self._in_flight:
            self._last_answer_at = self._clock.monotonic()
        self._in_flight.append(self._next_id)
        self._next_id = (self._next_id + 1) & EPOCH_MAX
        if fetch.session_epoch:
            fetch.session_epoch = fetch.session_epoch + 1 if fetch.session_epoch < EPOCH_MAX else 1

    def _take_settings(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._partition_bytes_max = settings.integer("replica.fetch.max.bytes")
        self._fetch.max_wait_ms = settings.integer("replica.fetch.wait.max.ms")
        self._fetch.min_bytes = settings.integer("replica.fetch.min.bytes")
        self._fetch.max_bytes = settings.integer("replica.fetch.response.max.bytes")

    def _requested_partitions(self) -> list[RequestedPartition]:
        """Return the partitions that the next request must name, with their offsets and epochs."""
        requested: list[RequestedPartition] = []
        throttle = self._context.follower_throttle
        changed, self._changed = self._changed, {}
        for followed in changed:
            if len(requested) == NAMED_MAX:
                self._changed[followed] = None
                continue
            partition = followed.partition
            is_member = partition.node_id in partition.isr
            if throttle.holds_back(partition, partition.node_id, is_member=is_member):
                self._pause(followed, THROTTLED_PAUSE_S)
                continue
            wanted = followed.next_request(self._partition_bytes_max)
            if wanted != followed.requested or self._fetch.session_epoch == 0:
                if followed.requested is None:
                    followed.requested_in = self._next_id
                followed.named_in = self._next_id
                followed.requested = wanted
                self._removed.pop(followed.key, None)
                requested.append(wanted)
        return requested

    # -- the connection ------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._dialing or self._reconnect is not None:
            return
        address = self._context.address_of(self.leader)
        if address is None:
            self._retry_later(CONNECT_PAUSE_S_MAX)
            return
        self._dialing = True
        self._context.network.connect(*address, self._opened)

    def _opened(self, outcome: Connection | OSError) -> Session | None:
        self._dialing = False
        if isinstance(outcome, OSError) or self._closed:
            self._failures += 1
            self._retry_later(min(CONNECT_PAUSE_S * 2**self._failures, CONNECT_PAUSE_S_MAX))
            return None
        link = _Link(self)
        self._connection = outcome
        self._begin_session()
        self._clock.call_later(0, self._send_next)
        return link

    def _begin_session(self) -> None:
        self._fetch.session_id = 0
        self._fetch.session_epoch = 0
        self._in_flight.clear()
        for followed in self._followed.values():
            followed.requested = None

    def _retry_later(self, seconds: float) -> None:
        if self._reconnect is None and not self._closed:
            self._reconnect = self._clock.call_later(seconds, self._retry)

    def _retry(self) -> None:
        self._reconnect = None
        self._send_next()

    def lost(self) -> None:
        self._connection = None
        self._begin_session()
        self._failures += 1
        self._retry_later(min(CONNECT_PAUSE_S * 2**self._failures, CONNECT_PAUSE_S_MAX))

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _check_timeout(self) -> None:
        """Close the connection to a leader that has not answered for too long; the next one is opened soon after."""
        self._watch = self._clock.call_later(WATCH_S, self._check_timeout)
        patience_s = self._context.settings().integer("replica.socket.timeout.ms") / 1000
        if self._in_flight and self._clock.monotonic() - self._last_answer_at > patience_s:
            log.warning("closing the connection to node %d: no answer to a fetch for %.0f s", self.leader, patience_s)
            self._hang_up()

    # -- responses -----------------------------------------------------------------------------

    def answered(self, frame: memoryview) -> None:
        try:
            request_id, answer = read_response(frame)
        except MalformedRequest as problem:
            log.error("node %d sent a malformed fetch response: %s", self.leader, problem)
            request_id, answer = -1, None
        if answer is None or not self._in_flight or self._in_flight.popleft() != request_id:
            self._hang_up()
            return
        self._last_answer_at = self._clock.monotonic()
        self._failures = 0
        if answer.error_code:
            # The leader dropped the session. Begin another one on a new connection, where no request is in flight.
            log.info("node %d rejected a fetch session with error %d", self.leader, answer.error_code)
            self._hang_up()
            return
        if self._fetch.session_epoch == 0:
            self._fetch.session_id = answer.session_id
            self._fetch.session_epoch = 1 if answer.session_id else 0
        now_ms = self._clock.wall_ms()
        for row in answer.rows:
            followed = self._followed.get((row[0], row[1]))
            # Ignore rows that were requested in another epoch, or that are no longer requested.
            if followed is not None and followed.requested is not None and request_id >= followed.requested_in:
                self._apply_row(followed, row, now_ms, is_repeated=self._is_repeated(followed, request_id))
        self._send_next()

    def _is_repeated(self, followed: Followed, request_id: int) -> bool:
        """Return whether a response refers to an earlier end of the log.

        Of two fetches in flight, the first response may move the end; the second was requested before that.
        """
        requested = followed.requested
        return (
            requested is None
            or requested[_OFFSET] != followed.partition.log.end_offset
            or request_id < followed.named_in
        )

    def _apply_row(self, followed: Followed, row: Row, now_ms: int, *, is_repeated: bool) -> None:
        _, _, code, mark, leader_start, diverging, records = row
        partition = followed.partition
        held = partition.log
        try:
            if code or diverging is not None:
                if not is_repeated:
                    self._carry_out(followed, self._decide(partition, code, diverging, leader_start))
                return
            if records is not None and not is_repeated:
                self._append(followed, records, now_ms, mark)
            partition.follow_high_watermark(mark)
            if leader_start > held.start_offset:
                held.advance_start(min(leader_start, held.end_offset))
                self._changed[followed] = None
            self._context.fetched(partition, mark)
        except (CorruptMessage, InvalidRecord) as refusal:
            log.error("cannot append records of %s-%d from node %d: %s",
                      partition.topic, partition.index, self.leader, refusal)  # fmt: skip
            self._pause(followed, self._backoff_s())
        except (StorageError, Corruption, OSError) as error:
            # A read-only data folder is logged once elsewhere, not again for each partition.
            level = logging.DEBUG if held.directory.is_read_only else logging.ERROR
            log.log(level, "cannot replicate %s-%d: %s", partition.topic, partition.index, error)
            self._storage_failed(followed)
        except Refusal as refusal:
            log.error("cannot replicate %s-%d: %s", partition.topic, partition.index, refusal)
            self._pause(followed, self._backoff_s())

    def _append(self, followed: Followed, records: memoryview, now_ms: int, leader_mark: int) -> None:
        partition = followed.partition
        partition.append_fetched(records, now_ms=now_ms, leader_mark=leader_mark)
        self._changed[followed] = None
        held = partition.log
        if held.durable_offset < held.end_offset:
            self._unflushed[followed] = None
        throttle = self._context.follower_throttle
        throttle.passed += len(records)
        if throttle.watches(partition, partition.node_id, is_member=partition.node_id in partition.isr):
            throttle.spend(len(records))

    def _decide(self, partition: Partition, code: int, diverging: tuple[int, int] | None, leader_start: int) -> Step:
        if diverging is not None and not code:
            return follower.on_divergence(partition.log, epoch=diverging[0], end_offset=diverging[1])
        return follower.on_error(partition.log, code, leader_start=leader_start, backoff_s=self._backoff_s())

    def _carry_out(self, followed: Followed, step: Step) -> None:
        partition = followed.partition
        held = partition.log
        if step.kind is Kind.PAUSE:
            self._pause(followed, step.pause_s)
            return
        if step.kind is Kind.CONTINUE:
            self._changed[followed] = None
            return
        if not partition.unclean and follower.loses_committed(step, held, partition.high_watermark):
            log.error(
                "%s-%d: leader %d reports that the logs diverge at offset %d, but everything before %d is committed "
                "and there was no unclean election. The leader has lost records; nothing is removed on this node",
                partition.topic, partition.index, self.leader, step.offset, partition.high_watermark,
            )  # fmt: skip
            self._pause(followed, self._backoff_s())
            return
        log.warning(
            "%s-%d: %s at offset %d, as leader %d requires; it had offsets %d to %d, high watermark %d",
            partition.topic, partition.index, "truncated" if step.kind is Kind.TRUNCATE else "restarted", step.offset,
            self.leader, held.start_offset, held.end_offset, partition.high_watermark,
        )  # fmt: skip
        if step.kind is Kind.TRUNCATE:
            partition.truncate(step.offset)
        else:
            partition.restart_at(step.offset)
        self._changed[followed] = None
        self._wait_until_durable(followed)

    def _wait_until_durable(self, followed: Followed) -> None:
        """Send no fetch before everything in the log is durable."""
        held = followed.partition.log
        if held.durable_offset >= held.end_offset:
            self._unflushed.pop(followed, None)
        else:
            self._unflushed[followed] = None
            held.flusher.start()

    def _storage_failed(self, followed: Followed) -> None:
        self._pause(followed, self._backoff_s())
        if followed.partition.log.damage is not None:
            self._context.damaged(followed.partition)

    def _backoff_s(self) -> float:
        return self._context.settings().integer("replica.fetch.backoff.ms") / 1000


class _Link:
    """The session of one connection; the fetcher ignores those of earlier connections."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher: Fetcher | None = fetcher
        self.frame: Callable[[memoryview], None] = fetcher.answered

    def lost(self, error: Exception | None) -> None:
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            fetcher.lost()
