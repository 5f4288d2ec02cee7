"""Fetch, versions 4-18. Hot: a plain function per frame, no coroutine.

Answers immediately if there are enough bytes (min_bytes) or an error, or if max_wait_ms is 0; otherwise parks until the
high watermark of one of its partitions moves or max_wait_ms has passed. Limits as in KIP-74: the first partition with
data returns at least one whole batch, however large. Sessions are in replication/fetch_session.py. Records are sent as
slices of files. A consumer over its quota gets no records and a throttle time. Followers serve consumers too, up to
their own high watermark; a leader may redirect a consumer to a replica in its rack (KIP-392). Fetches of other brokers
go to support/replica_fetch.py. Version notes are in wire/hot/fetch.py.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from penstock.handlers.support import replica_fetch
from penstock.handlers.support.context import Context
from penstock.handlers.support.fetch_rights import deny_replica, may_read, owner_of
from penstock.handlers.support.partition_errors import HINTED, endpoints_of, leader_hint, not_hosted
from penstock.handlers.support.reply import Parked, Parts
from penstock.handlers.support.throttled import charge_fetch, throttle_ms
from penstock.metadata.opening import METADATA_TOPIC_ID
from penstock.model.errors import (
    UNKNOWN_SERVER_ERROR,
    Corruption,
    OffsetNotAvailable,
    Refusal,
    StorageError,
    TopicAuthorizationFailed,
)
from penstock.model.ids import NodeId
from penstock.model.job import Job
from penstock.ports.network import Connection
from penstock.replication.fetch_session import FetchSession, FetchSessions
from penstock.replication.isr import most_caught_up
from penstock.replication.partition import Partition
from penstock.replication.waiting import Deadlines
from penstock.scheduling.scheduler import SLICE_COST, ClientGone
from penstock.security.rights import Rights
from penstock.wire.frame import Header
from penstock.wire.hot.fetch import (
    TOPIC_ID_FROM,
    FetchPartition,
    FetchRequest,
    PartitionAnswer,
    any_cut,
    read_request,
    write_response,
)
from penstock.wire.hot.produce import NodeEndpoint

log = logging.getLogger(__name__)

READ_COMMITTED = 1
METADATA_TOPIC = METADATA_TOPIC_ID.bytes
FOLLOWERS_SERVE_FROM = 11
HINTS_FROM = 16
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

LARGE_COUNT_MIN: Final = 500
"""A fetch of more partitions than this is answered in slices: each partition takes some microseconds."""


class FetchHandler:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.replicas = context.replicas
        self.clock = context.clock
        self.deadlines = Deadlines(context.clock)
        settings = context.settings
        self.sessions = FetchSessions(
            context.entropy.stream("fetch-sessions"),
            count_max=int(settings["max.incremental.fetch.session.cache.slots"]),
            eviction_s=settings["min.incremental.fetch.session.eviction.ms"] / 1000,
        )
        self.followers_serve_consumers = settings["replica.selector.class"] == RACK_AWARE
        if context.authorizer is not None:
            context.authorizer.on_change.append(self.rights_changed)

    def rights_changed(self) -> None:
        """Answer the parked fetches of clients that have lost the right to read, and read idle partitions again."""
        # Until it ends, nothing is returned that may not be read: each attempt checks the rights itself.
        self.context.scheduler.soon(self._checking_rights)

    def _checking_rights(self) -> Job[None]:
        yield from self.sessions.reading_all_again()
        for waiting in [each for each in self.deadlines.waiting() if isinstance(each, PendingFetch)]:
            yield from waiting.checking_rights()

    def handle(
        self, frame: memoryview, header: Header, listener: str = "PLAINTEXT", connection: Connection | None = None
    ) -> Parts | Parked:
        request = read_request(frame, header.body_position, header.version)
        if request.replica_id >= 0:
            if connection is not None and not connection.is_node:
                denial = deny_replica(request, header)
                if denial is not None:
                    return denial
            if request.partitions and request.partitions[0].topic == METADATA_TOPIC:
                from penstock.handlers.support import metadata_fetch  # only nodes of a cluster fetch it

                return metadata_fetch.handle(self.context, frame, header)
            return replica_fetch.handle(self, request, header)
        by_id = header.version >= TOPIC_ID_FROM
        now = self.clock.monotonic()
        try:
            session = self.sessions.find(request, by_id=by_id, now=now, owner=owner_of(header))
        except Refusal as refusal:
            return write_response(
                header.version,
                header.correlation_id,
                (),
                error_code=refusal.code,
                throttle_ms=header.throttle_ms,
            )
        fetch = PendingFetch(self, header, request, session, listener)
        if fetch.is_large:
            fetch.begin(now + request.max_wait_ms / 1000)
            return fetch
        parts = fetch.attempt()
        if parts is not None:
            return parts
        fetch.park(now + request.max_wait_ms / 1000)
        return fetch


class PendingFetch(Parked):
    """One fetch request, from its first attempt to its response."""

    __slots__ = (
        "_by_id",
        "_client",
        "_deadline",
        "_gained",
        "_handler",
        "_header",
        "_is_final",
        "_is_reading",
        "_listener",
        "_max_bytes",
        "_missing",
        "_readable",
        "_reads_again",
        "_request",
        "_rights",
        "_session",
        "_waits_on",
    )

    def __init__(
        self, handler: FetchHandler, header: Header, request: FetchRequest, session: FetchSession | None, listener: str
    ) -> None:
        super().__init__()
        self._handler = handler
        self._header = header
        self._request = request
        self._session = session
        self._listener = listener
        self._by_id = header.version >= TOPIC_ID_FROM
        self._max_bytes = min(request.max_bytes, int(handler.context.settings["fetch.max.bytes"]))
        self._rights: Rights | None = header.rights
        if self._rights is not None:
            self._readable = self._rights.readable_ids if self._by_id else self._rights.readable_names
        client = header.client
        if client is None or client.fetch is None:
            self._client = None
        else:
            self._client = client
            self._max_bytes = min(self._max_bytes, client.fetch_size_max)
        self._is_reading = self._reads_again = self._is_final = False
        self._deadline = 0.0
        self._missing = 0
        self._gained = 0
        self._waits_on: list[Partition] = []

    @property
    def is_large(self) -> bool:
        """Return whether the request has so many partitions that reading all of them takes several slices."""
        return len(self._request.partitions if self._session is None else self._session.ready) > LARGE_COUNT_MIN

    def begin(self, deadline: float) -> None:
        """Read many partitions in slices, and wait for more records if there are too few."""
        self._deadline = deadline
        if self._session is not None:
            self._session.wait_with(self)
        self._read_in_slices(final=False)

    def _read_in_slices(self, *, final: bool) -> None:
        if self._is_reading:
            # A change may affect a partition that was already read.
            self._reads_again = True
            self._is_final = self._is_final or final
            return
        self._is_reading, self._reads_again, self._is_final = True, False, final
        self._handler.context.scheduler.run(
            self._attempting(final=final), self._read_done, is_wanted=lambda: not self.is_abandoned
        )

    def _read_done(self, parts: Any, error: BaseException | None) -> None:
        self._is_reading = False
        if isinstance(error, ClientGone):
            return
        if error is not None:
            log.error("%r failed", self._header, exc_info=error)
            self._leave()
            self.fail()
        elif parts is not None:
            self._leave()
            self.ready(parts)
        else:
            if self._deadline:
                deadline, self._deadline = self._deadline, 0.0
                self.park(deadline)
            if self._reads_again:
                self._read_in_slices(final=self._is_final)

    def _attempting(self, *, final: bool) -> Job[Parts | None]:
        """Build a response like `attempt`, in slices."""
        if self._client is not None and (wait := charge_fetch(self._client, 0, self._handler.clock)):
            return self._write((), self._session, throttle_ms(wait))
        answers: list[PartitionAnswer] = []
        size = 0
        urgent = final or self._request.max_wait_ms <= 0
        for number, requested in enumerate(self._requested()):
            if number % SLICE_COST == SLICE_COST - 1:
                yield None
            answer = self._read(requested, max(0, self._max_bytes - size), at_least_one=size == 0)
            if self._session is None or not self._is_idle(self._session, requested, answer):
                answers.append(answer)
                size += answer.size
                urgent = urgent or _is_urgent(answer)
        if not urgent and size < min(self._request.min_bytes, self._max_bytes) and not any_cut(answers):
            self._missing = self._request.min_bytes - size
            return None
        return self._answer(answers)

    def attempt(self, *, final: bool = False) -> Parts | None:
        """Return the response, or None if the request should wait for more records."""
        request = self._request
        if self._client is not None and (wait := charge_fetch(self._client, 0, self._handler.clock)):
            # KIP-219: a client over its quota gets only the throttle time.
            return self._write((), self._session, throttle_ms(wait))
        answers: list[PartitionAnswer] = []
        session = self._session
        room = self._max_bytes
        size = 0
        urgent = final or request.max_wait_ms <= 0
        for requested in self._requested():
            answer = self._read(requested, room, at_least_one=size == 0)
            if session is not None and self._is_idle(session, requested, answer):
                continue
            answers.append(answer)
            size += answer.size
            room = max(0, room - answer.size)
            if _is_urgent(answer):
                urgent = True
        wanted = min(request.min_bytes, self._max_bytes)
        if not urgent and (answers or session is not None) and size < wanted and not any_cut(answers):
            self._missing = request.min_bytes - size
            return None
        return self._answer(answers)

    def _requested(self) -> Iterable[FetchPartition]:
        if self._session is None:
            return self._request.partitions
        return [cached.requested for cached in self._session.ready]

    def _is_idle(self, session: FetchSession, requested: FetchPartition, answer: PartitionAnswer) -> bool:
        """Return whether a partition has nothing to return; the session then reads it again after its next event."""
        cached = session.partitions.get((requested.topic, requested.index))
        if cached is None or not cached.is_idle(answer, committed_only=self._request.isolation_level == READ_COMMITTED):
            return False
        cached.watch(self._find(requested))
        session.ready.pop(cached, None)
        return True

    def _answer(self, answers: list[PartitionAnswer]) -> Parts:
        session = self._session
        if session is not None:
            answers = session.news(answers)
        else:
            handler = self._handler
            session = handler.sessions.begin(
                self._request, by_id=self._by_id, now=handler.clock.monotonic(), owner=owner_of(self._header)
            )
            if session is not None:
                session.remember(answers)
        self._count(answers)
        wait = 0.0
        if self._client is not None:
            wait = charge_fetch(self._client, sum(answer.size for answer in answers), self._handler.clock)
        return self._write(answers, session, throttle_ms(wait))

    def _count(self, answers: Iterable[PartitionAnswer]) -> None:
        handler = self._handler
        metrics = handler.context.metrics
        topics = handler.replicas.by_id if self._by_id else handler.replicas.by_name
        for answer in answers:
            if answer.size:
                topic = topics.get(answer.topic)
                if topic is not None:
                    topic.bytes_out += answer.size
            elif answer.error_code:
                metrics.failed_fetches.add()

    def _write(self, answers: Sequence[PartitionAnswer], session: FetchSession | None, wait_ms: int) -> Parts:
        header = self._header
        endpoints: Sequence[NodeEndpoint] = ()
        if header.version >= HINTS_FROM and any(answer.error_code in HINTED for answer in answers):
            endpoints = endpoints_of(self._handler.context, self._hint(answers), self._listener)
        return write_response(
            header.version,
            header.correlation_id,
            answers,
            session_id=0 if session is None else session.id,
            throttle_ms=max(wait_ms, header.throttle_ms),
            endpoints=endpoints,
        )

    def _hint(self, answers: Sequence[PartitionAnswer]) -> list[int]:
        """Add the current leader where this node is not the leader (KIP-951); return the leaders."""
        leaders = []
        for answer in answers:
            if answer.error_code in HINTED:
                hint = leader_hint(self._handler.context, answer.topic, answer.index, by_id=self._by_id)
                if hint is not None:
                    answer.current_leader = hint
                    leaders.append(hint[0])
        return leaders

    def _find(self, requested: FetchPartition) -> Partition | None:
        replicas = self._handler.replicas
        topic = (replicas.by_id if self._by_id else replicas.by_name).get(requested.topic)
        return None if topic is None else topic.partitions.get(requested.index)

    def _read(self, requested: FetchPartition, room: int, *, at_least_one: bool) -> PartitionAnswer:
        request = self._request
        rights = self._rights
        try:
            if (
                rights is not None
                and requested.topic not in self._readable
                and not may_read(self._handler, self._header, requested)
            ):
                raise TopicAuthorizationFailed
            partition = self._find(requested)
            if partition is None:
                return self._unknown(requested)
            partition.check_epoch(
                requested.current_leader_epoch, leader_only=self._header.version < FOLLOWERS_SERVE_FROM
            )
            if not partition.mark_is_known:
                # Any high watermark sent now could be lower than what the previous leader has sent.
                raise OffsetNotAvailable
            if request.rack and self._handler.followers_serve_consumers:
                preferred = self._preferred_replica(partition, requested.offset)
                if preferred is not None:
                    return preferred
            diverging = None
            if requested.last_fetched_epoch >= 0:
                diverging = partition.diverging_epoch(requested.offset, requested.last_fetched_epoch)
            records = None
            if diverging is None:
                records = partition.read(
                    requested.offset,
                    max_bytes=min(requested.max_bytes, room),
                    committed_only=request.isolation_level == READ_COMMITTED,
                    at_least_one=at_least_one,
                )
            marks = partition.marks
            answer = PartitionAnswer(
                requested.topic,
                requested.index,
                0,
                marks.high_watermark,
                marks.last_stable_offset,
                partition.log.offsets.start,
                records,
            )
            answer.diverging = diverging
            if request.isolation_level == READ_COMMITTED:
                # Without records there is nothing to filter.
                answer.aborted = partition.log.aborted_in(requested.offset, records) if records is not None else ()
            return answer
        except TopicAuthorizationFailed as refusal:
            answer = PartitionAnswer(requested.topic, requested.index, refusal.code)
            answer.aborted = ()
            return answer
        except Refusal as refusal:
            return PartitionAnswer(requested.topic, requested.index, refusal.code)
        except (OSError, Corruption) as error:
            log.error("fetch of %r-%d at %d failed: %s", requested.topic, requested.index, requested.offset, error)
            return PartitionAnswer(requested.topic, requested.index, StorageError.code)
        except Exception:
            log.exception("fetch of %r-%d at %d failed", requested.topic, requested.index, requested.offset)
            return PartitionAnswer(requested.topic, requested.index, UNKNOWN_SERVER_ERROR)

    def _preferred_replica(self, partition: Partition, offset: int) -> PartitionAnswer | None:
        """Redirect the consumer to the replica in its rack with the highest offset, unless it is this one."""
        leadership = partition.leadership
        brokers = self._handler.context.quorum.image.brokers
        rack = self._request.rack
        own = brokers.get(partition.node_id)
        if leadership is None or (own is not None and own.rack == rack):
            return None
        near = [
            node_id
            for node_id in leadership.isr
            if (broker := brokers.get(node_id)) is not None and broker.rack == rack and not broker.fenced
        ]
        chosen: NodeId | None = most_caught_up(leadership.followers, among=near, offset=offset)
        if chosen is None:
            return None
        topic = partition.topic_id.bytes if self._by_id else partition.topic.encode()
        answer = PartitionAnswer(
            topic,
            partition.index,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
        )
        answer.preferred_read_replica = chosen
        if self._request.isolation_level == READ_COMMITTED:
            answer.aborted = ()
        return answer

    def _unknown(self, requested: FetchPartition) -> PartitionAnswer:
        refusal = not_hosted(self._handler.context, requested.topic, requested.index, by_id=self._by_id)
        answer = PartitionAnswer(requested.topic, requested.index, refusal.code)
        answer.aborted = ()
        return answer

    # -- parked ----------------------------------------------------------------------------

    def park(self, deadline: float) -> None:
        session = self._session
        if session is not None:
            session.wait_with(self)
            for cached in session.ready:
                cached.watch(self._find(cached.requested))
        else:
            for requested in self._request.partitions:
                partition = self._find(requested)
                if partition is not None:
                    partition.waiters.add_watcher(self)
                    self._waits_on.append(partition)
        self._handler.deadlines.add(deadline, self)

    def more_bytes(self, size: int) -> None:
        # The size only shows whether another attempt is worthwhile; the attempt decides.
        self._gained += size
        if self._gained >= self._missing:
            self._gained = 0
            self._retry(final=False)

    def checking_rights(self) -> Job[None]:
        """Answer if the client has lost the right to read one of the topics."""
        if self._rights is None:
            return
        for number, requested in enumerate(list(self._requested()), start=1):
            if requested.topic not in self._readable and not may_read(self._handler, self._header, requested):
                self._retry(final=True)
                return
            if number % SLICE_COST == 0:
                yield None

    def changed(self) -> None:
        self._retry(final=True)

    def expired(self) -> None:
        self._retry(final=True)

    def _retry(self, *, final: bool) -> None:
        if self.parts is None and self.on_ready is not None:
            if self._is_reading or self.is_large:
                self._read_in_slices(final=final)
                return
            parts = self.attempt(final=final)
            if parts is not None:
                self._leave()
                self.ready(parts)

    def abandon(self) -> None:
        super().abandon()
        self._leave()

    def _leave(self) -> None:
        if self._session is not None and self._session.waiting is self:
            self._session.waiting = None
        for partition in self._waits_on:
            partition.waiters.remove_watcher(self)
        self._waits_on = []


def _is_urgent(answer: PartitionAnswer) -> bool:
    """Return whether the client should get the answer immediately."""
    if answer.diverging is not None or answer.preferred_read_replica >= 0:
        return True
    # A high watermark that is unknown will be known soon: that is worth waiting for.
    return answer.error_code not in (0, OffsetNotAvailable.code)
