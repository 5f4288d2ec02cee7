"""Fetch, versions 4-18. Hot: a plain function per frame, no coroutine.

Answers at once when there are enough bytes (min_bytes), an error, or no patience; parks
otherwise until the high watermark of one of its partitions moves or max_wait_ms is over.
Limits as in KIP-74: the first partition with data gives at least one whole batch, however
large. Sessions in replication/fetch_session.py. Records leave as slices of files. A consumer over
its quota is answered with nothing and the time to wait.
Version notes stand in wire/hot/fetch.py. Goes to replication/replicas.py.
"""

import logging
from collections.abc import Iterable, Sequence

from penstock.handlers.context import Context
from penstock.handlers.reply import Parked, Parts
from penstock.handlers.throttled import charge_fetch, throttle_ms
from penstock.metadata.opening import METADATA_TOPIC_ID
from penstock.model.errors import (
    UNKNOWN_SERVER_ERROR,
    Corruption,
    NotLeaderOrFollower,
    Refusal,
    StorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.replication.fetch_session import FetchSession, FetchSessions
from penstock.replication.partition import Partition
from penstock.replication.waiting import Deadlines
from penstock.wire.frame import Header
from penstock.wire.hot.fetch import (
    TOPIC_ID_FROM,
    FetchPartition,
    FetchRequest,
    PartitionAnswer,
    read_request,
    write_response,
)

log = logging.getLogger(__name__)

READ_COMMITTED = 1
ORDINARY_CONSUMER = -1
METADATA_TOPIC = METADATA_TOPIC_ID.bytes


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

    def handle(self, frame: memoryview, header: Header) -> Parts | Parked:
        request = read_request(frame, header.body_position, header.version)
        by_id = header.version >= TOPIC_ID_FROM
        if (
            request.replica_id > ORDINARY_CONSUMER
            and request.partitions
            and request.partitions[0].topic == METADATA_TOPIC
        ):
            from penstock.handlers import metadata_fetch  # only nodes of a cluster ask for it

            return metadata_fetch.handle(self.context, frame, header)
        now = self.clock.monotonic()
        try:
            session = self.sessions.find(request, by_id=by_id, now=now)
        except Refusal as refusal:
            return write_response(
                header.version,
                header.correlation_id,
                (),
                error_code=refusal.code,
                throttle_ms=header.throttle_ms,
            )
        fetch = ParkedFetch(self, header, request, session)
        parts = fetch.attempt()
        if parts is not None:
            return parts
        fetch.park(now + request.max_wait_ms / 1000)
        return fetch


class ParkedFetch(Parked):
    """One fetch, from its first attempt to its answer."""

    __slots__ = (
        "_by_id",
        "_client",
        "_gained",
        "_handler",
        "_header",
        "_max_bytes",
        "_missing",
        "_request",
        "_session",
        "_waits_on",
    )

    def __init__(
        self, handler: FetchHandler, header: Header, request: FetchRequest, session: FetchSession | None
    ) -> None:
        super().__init__()
        self._handler = handler
        self._header = header
        self._request = request
        self._session = session
        self._by_id = header.version >= TOPIC_ID_FROM
        self._max_bytes = min(request.max_bytes, int(handler.context.settings["fetch.max.bytes"]))
        client = header.client
        # Replicas are not clients: holding them up would hold up everybody's acknowledgements.
        if client is None or client.fetch is None or request.replica_id > ORDINARY_CONSUMER:
            self._client = None
        else:
            self._client = client
            self._max_bytes = min(self._max_bytes, client.fetch_size_max)
        self._missing = 0
        self._gained = 0
        self._waits_on: list[Partition] = []

    def attempt(self, *, final: bool = False) -> Parts | None:
        """The answer, or None if it is better to wait for more."""
        request = self._request
        if self._client is not None and (wait := charge_fetch(self._client, 0, self._handler.clock)):
            # KIP-219: over its quota a client gets nothing but the time to wait.
            return self._write((), self._session, throttle_ms(wait))
        answers: list[PartitionAnswer] = []
        room = self._max_bytes
        size = 0
        urgent = final or request.max_wait_ms <= 0
        for asked in self._asked():
            answer = self._read(asked, room, at_least_one=size == 0)
            answers.append(answer)
            size += answer.size
            room = max(0, room - answer.size)
            if answer.error_code or answer.diverging is not None:
                urgent = True
        if not urgent and answers and size < min(request.min_bytes, self._max_bytes):
            self._missing = request.min_bytes - size
            return None
        return self._answer(answers)

    def _asked(self) -> Iterable[FetchPartition]:
        if self._session is None:
            return self._request.partitions
        return [cached.asked for cached in self._session.partitions.values()]

    def _answer(self, answers: list[PartitionAnswer]) -> Parts:
        session = self._session
        if session is not None:
            answers = session.news(answers)
        else:
            handler = self._handler
            session = handler.sessions.begin(self._request, by_id=self._by_id, now=handler.clock.monotonic())
            if session is not None:
                session.remember(answers)
        wait = 0.0
        if self._client is not None:
            wait = charge_fetch(self._client, sum(answer.size for answer in answers), self._handler.clock)
        return self._write(answers, session, throttle_ms(wait))

    def _write(self, answers: Sequence[PartitionAnswer], session: FetchSession | None, wait_ms: int) -> Parts:
        header = self._header
        return write_response(
            header.version,
            header.correlation_id,
            answers,
            session_id=0 if session is None else session.id,
            throttle_ms=max(wait_ms, header.throttle_ms),
        )

    def _find(self, asked: FetchPartition) -> Partition | None:
        replicas = self._handler.replicas
        topic = (replicas.by_id if self._by_id else replicas.by_name).get(asked.topic)
        return None if topic is None else topic.partitions.get(asked.index)

    def _read(self, asked: FetchPartition, room: int, *, at_least_one: bool) -> PartitionAnswer:
        request = self._request
        try:
            partition = self._find(asked)
            if partition is None:
                return self._unknown(asked)
            if request.replica_id > ORDINARY_CONSUMER:
                raise NotLeaderOrFollower
            partition.check_epoch(asked.current_leader_epoch)
            diverging = None
            if asked.last_fetched_epoch >= 0:
                diverging = partition.diverging_epoch(asked.offset, asked.last_fetched_epoch)
            records = None
            if diverging is None:
                records = partition.read(
                    asked.offset,
                    max_bytes=min(asked.max_bytes, room),
                    committed_only=request.isolation_level == READ_COMMITTED,
                    at_least_one=at_least_one,
                )
            answer = PartitionAnswer(
                asked.topic,
                asked.index,
                0,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log.start_offset,
                records,
            )
            answer.diverging = diverging
            if request.isolation_level == READ_COMMITTED:
                # Without records there is nothing to filter.
                answer.aborted = partition.log.aborted_in(asked.offset, records) if records is not None else ()
            return answer
        except Refusal as refusal:
            return PartitionAnswer(asked.topic, asked.index, refusal.code)
        except (OSError, Corruption) as error:
            log.error("fetch of %r-%d at %d failed: %s", asked.topic, asked.index, asked.offset, error)
            return PartitionAnswer(asked.topic, asked.index, StorageError.code)
        except Exception:
            log.exception("fetch of %r-%d at %d failed", asked.topic, asked.index, asked.offset)
            return PartitionAnswer(asked.topic, asked.index, UNKNOWN_SERVER_ERROR)

    def _unknown(self, asked: FetchPartition) -> PartitionAnswer:
        no_such_topic = self._by_id and asked.topic not in self._handler.replicas.by_id
        code = UnknownTopicId.code if no_such_topic else UnknownTopicOrPartition.code
        answer = PartitionAnswer(asked.topic, asked.index, code)
        answer.aborted = ()
        return answer

    # -- parked ----------------------------------------------------------------------------

    def park(self, deadline: float) -> None:
        for asked in self._asked():
            partition = self._find(asked)
            if partition is not None:
                partition.add_waiting(self)
                self._waits_on.append(partition)
        self._handler.deadlines.add(deadline, self)

    def more_bytes(self, size: int) -> None:
        # The size only says whether another look is worth its while; the look decides.
        self._gained += size
        if self._gained >= self._missing:
            self._gained = 0
            self._look_again(final=False)

    def changed(self) -> None:
        self._look_again(final=True)

    def expired(self) -> None:
        self._look_again(final=True)

    def _look_again(self, *, final: bool) -> None:
        if self.parts is None and self.on_ready is not None:
            parts = self.attempt(final=final)
            if parts is not None:
                self._leave()
                self.ready(parts)

    def abandon(self) -> None:
        super().abandon()
        self._leave()

    def _leave(self) -> None:
        for partition in self._waits_on:
            partition.remove_waiting(self)
        self._waits_on = []
