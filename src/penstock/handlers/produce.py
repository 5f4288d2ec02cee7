"""Produce, versions 3-13. Hot: a plain function per frame, no coroutine.

acks=1 is answered when the records are written, acks=all when they are durable on every in-sync
replica and below the high watermark, acks=0 not at all: an error then closes the connection,
which is the only way to notify such a client. Records pass through unchanged; storage checks
them. An error of one partition does not affect the others of the request (KIP-467 names records),
and names the current leader if this node is not the leader (KIP-951).
Version 13 names topics by id. Transactional batches go to support/transaction_verification.py first; a request that
would block the event loop for long goes to support/sliced_produce.py. Goes to replication/replicas.py.
"""

import logging

from penstock.handlers.support.context import Context
from penstock.handlers.support.partition_errors import HINTED, endpoints_of, leader_hint, not_hosted, topic_name_of
from penstock.handlers.support.reply import NO_REPLY, Parked, Parts
from penstock.handlers.support.sliced_produce import (
    BATCH_COST,
    SLICE_SIZE,
    Postponed,
    SlicedProduce,
    Writing,
    read_kept,
)
from penstock.handlers.support.transaction_verification import CloseConnection, RefusedWrite, Verdicts, Verifier
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    RecordRefusal,
    Refusal,
    TopicAuthorizationFailed,
    UnsupportedCompressionType,
)
from penstock.model.job import Job
from penstock.ports.network import Connection, KeptFrame, copied
from penstock.replication.hosted_topic import HostedTopic
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.replication.waiting import WaitingProduce
from penstock.scheduling.scheduler import TakesLonger
from penstock.security.rights import Rights
from penstock.storage.validate import Prepared, Unprepared
from penstock.storage.verification_guard import VerificationGuard
from penstock.transactions.errors import InvalidProducerIdMapping, TransactionalIdAuthorizationFailed
from penstock.wire.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE, TRANSACTIONAL
from penstock.wire.compression import ZSTD
from penstock.wire.frame import Header
from penstock.wire.hot.produce import (
    TOPIC_ID_FROM,
    PartitionResult,
    ProduceRequest,
    TopicResults,
    read_request,
    write_response,
)

log = logging.getLogger(__name__)

ZSTD_FROM = 7
HINTS_FROM = 10


class ParkedProduce(Parked):
    """An acks=all request whose records are written but not yet durable on all in-sync replicas."""

    holds_next = False
    __slots__ = ("_deadline", "_handler", "_header", "_listener", "_outstanding", "_topics")

    def __init__(
        self, handler: "ProduceHandler", header: Header, listener: str, topics: list[TopicResults], deadline: float
    ) -> None:
        super().__init__()
        self._handler = handler
        self._listener = listener
        self._header = header
        self._topics = topics
        self._deadline = deadline
        self._outstanding = 0

    def hold(self) -> None:
        """Delay the response until `let_go`, because more partitions will be written."""
        self._outstanding += 1

    def let_go(self) -> None:
        self._partition_done()

    def _partition_done(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0:
            self.ready([self._handler.write(self._header, self._topics, self._listener)])

    def wait(self, partition: Partition, offset: int, result: PartitionResult) -> None:
        self._outstanding += 1

        def done(error_code: int) -> None:
            if error_code:
                result.error_code = error_code
                result.base_offset = -1
            self._partition_done()

        partition.wait_durable(WaitingProduce(offset, self._deadline, done))


class ProduceHandler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._replicas = context.replicas
        self._clock = context.clock
        self._scheduler = context.scheduler
        self._wakeups = context.replicas.wakeups
        self._verifier = Verifier(context, self._apply, self._apply_kept, self._may_write)
        self._slices = SlicedProduce(self, context.scheduler)

    def handle(
        self, frame: memoryview, header: Header, listener: str = "PLAINTEXT", connection: Connection | None = None
    ) -> Parts | Parked:
        request = read_request(frame, header.body_position, header.version)
        if request.acks not in (ALL_REPLICAS, 0, 1):
            return self._refuse_all(request, header, InvalidRequiredAcks())
        try:
            if request.transactional_id is None:
                return self._apply(request, header, None, listener)
            if header.rights is not None and not _may_write_in_transaction(request, header):
                if request.acks == 0:
                    raise CloseConnection
                return self._refuse_all(request, header, TransactionalIdAuthorizationFailed())
            return self._verifier.handle(frame, request, header, listener, connection)
        except InvalidProducerIdMapping as refusal:
            return self._refuse_all(request, header, refusal)
        except Postponed as postponed:
            kept = copied(frame) if connection is None else connection.keep_frame(frame)
            return self._slices.write(postponed.writing, read_kept(kept, header), kept)

    def _apply_kept(
        self, request: ProduceRequest, header: Header, verdicts: Verdicts, listener: str, kept: KeptFrame
    ) -> Parts | Parked:
        try:
            reply = self._apply(request, header, verdicts, listener)
        except Postponed as postponed:
            return self._slices.write(postponed.writing, request, kept)
        except BaseException:
            kept.release()
            raise
        kept.release()
        return reply

    def _apply(
        self, request: ProduceRequest, header: Header, verdicts: Verdicts | None, listener: str
    ) -> Parts | Parked:
        """Append the batches, transactional ones if the coordinator accepts them; raise Postponed if it takes long."""
        # Waiting followers are answered once, with everything that this request appends.
        self._wakeups.deferred = True
        try:
            return self._write_all(request, header, verdicts, listener)
        finally:
            self._wakeups.deferred = False
            self._wakeups.run()

    def _write_all(
        self, request: ProduceRequest, header: Header, verdicts: Verdicts | None, listener: str
    ) -> Parts | Parked:
        acks = request.acks
        rights: Rights | None = header.rights
        known: set[bytes] | None
        if header.version >= TOPIC_ID_FROM:
            hosted, known = self._replicas.by_id, None if rights is None else rights.writable_ids
        else:
            hosted, known = self._replicas.by_name, None if rights is None else rights.writable_names
        now_ms = self._clock.wall_ms()
        topics: list[TopicResults] = []
        parked: ParkedProduce | None = None
        failed = False
        size_left = SLICE_SIZE
        for key, partitions in request.topics:
            topic = hosted.get(key)
            results: list[PartitionResult] = []
            topics.append((key, results))
            if known is not None and key not in known and not self._may_write(key, topic, header):
                results += [PartitionResult(index, TopicAuthorizationFailed.code) for index, _ in partitions]
                failed = True
                continue
            for index, records in partitions:
                if size_left <= 0:
                    raise Postponed(Writing(header, listener, acks, verdicts, topics, parked, failed))
                size_left -= BATCH_COST if records is None else BATCH_COST + len(records)
                result = PartitionResult(index)
                try:
                    waits_for = self.write_one(topic, key, records, acks, now_ms, header, result, verdicts)
                except Unprepared:
                    try:
                        waits_for = self._open_and_write(topic, key, records, acks, now_ms, header, result, verdicts)
                    except TakesLonger:
                        raise Postponed(Writing(header, listener, acks, verdicts, topics, parked, failed)) from None
                results.append(result)
                if waits_for is not None:
                    parked = parked or self.parked(request, header, listener, topics)
                    parked.wait(*waits_for, result)
                failed = failed or result.error_code != NO_ERROR
        return parked or self.reply(acks, header, topics, listener, failed=failed)

    def _may_write(self, key: bytes, topic: HostedTopic | None, header: Header) -> bool:
        """Return whether the client may write to a topic; an unknown id has no name, and is answered as unknown."""
        rights: Rights | None = header.rights
        if rights is None:
            return True
        by_id = header.version >= TOPIC_ID_FROM
        name = topic_name_of(self._context, key, topic, by_id=by_id)
        return name is None or rights.may_write(key, name, by_id=by_id, api_key=header.api_key)

    def parked(
        self, request: ProduceRequest, header: Header, listener: str, topics: list[TopicResults]
    ) -> ParkedProduce:
        return ParkedProduce(self, header, listener, topics, self._clock.monotonic() + request.timeout_ms / 1000)

    def reply(
        self, acks: int, header: Header, topics: list[TopicResults], listener: str, *, failed: bool
    ) -> Parts | Parked:
        """Return the response to a request that need not wait for replication."""
        if acks == 0:
            if failed:
                raise CloseConnection
            return NO_REPLY
        return [self.write(header, topics, listener) if failed else write_produced(header, topics)]

    def _open_and_write(
        self,
        topic: HostedTopic | None,
        key: bytes,
        records: memoryview | None,
        acks: int,
        now_ms: int,
        header: Header,
        result: PartitionResult,
        verdicts: Verdicts | None,
    ) -> tuple[Partition, int] | None:
        """Write a batch whose records must be parsed, if that is quick; otherwise raise TakesLonger."""
        assert topic is not None and records is not None, "the log has required parsing them"
        try:
            prepared = self._scheduler.now(topic.partitions[result.index].log.prepare(records, now_ms))
        except Refusal as refusal:
            self.refused(result, refusal, topic, header)
            return None
        return self.write_one(topic, key, records, acks, now_ms, header, result, verdicts, prepared)

    def write_in_turn(
        self, writing: "Writing", key: bytes, records: memoryview | None, result: PartitionResult
    ) -> Job[tuple[Partition, int] | None]:
        """Write one batch of a request that is written in slices; the log may require parsing again later."""
        hosted = self._replicas.by_id if writing.header.version >= TOPIC_ID_FROM else self._replicas.by_name
        prepared = None
        while True:
            topic = hosted.get(key)
            if not self._may_write(key, topic, writing.header):
                result.error_code = TopicAuthorizationFailed.code
                return None
            now_ms = self._clock.wall_ms()
            self._wakeups.deferred = True
            try:
                return self.write_one(
                    topic, key, records, writing.acks, now_ms, writing.header, result, writing.verdicts, prepared
                )
            except Unprepared:
                pass
            finally:
                self._wakeups.deferred = False
                self._wakeups.run()
            assert topic is not None and records is not None, "the log has required parsing them"
            try:
                prepared = yield from topic.partitions[result.index].log.prepare(records, now_ms)
            except Exception as error:
                self.refused(result, error, topic, writing.header)
                return None

    def write(self, header: Header, topics: list[TopicResults], listener: str) -> bytes:
        """Encode the response, with the endpoints of the leaders where this node is not the leader (KIP-951)."""
        version = header.version
        if version < HINTS_FROM or not any(each.error_code in HINTED for _, results in topics for each in results):
            return write_produced(header, topics)
        leaders: list[int] = []
        for key, results in topics:
            for result in results:
                if result.error_code in HINTED:
                    hint = leader_hint(self._context, key, result.index, by_id=version >= TOPIC_ID_FROM)
                    if hint is not None:
                        result.current_leader = hint
                        leaders.append(hint[0])
        endpoints = endpoints_of(self._context, leaders, listener)
        return write_response(
            version, header.correlation_id, topics, throttle_ms=header.throttle_ms, endpoints=endpoints
        )

    def write_one(
        self,
        topic: HostedTopic | None,
        key: bytes,
        records: memoryview | None,
        acks: int,
        now_ms: int,
        header: Header,
        result: PartitionResult,
        verdicts: Verdicts | None,
        prepared: Prepared | None = None,
    ) -> tuple[Partition, int] | None:
        """Append one partition's records and fill in the result; return the offset that acks=all waits for.

        Raises Unprepared if the records must be parsed first.
        """
        try:
            partition = None if topic is None or topic.internal else topic.partitions.get(result.index)
            if partition is None:
                raise self._no_partition(topic, key, result.index, by_id=header.version >= TOPIC_ID_FROM)
            if records is None or len(records) < HEADER_SIZE:
                raise InvalidRecord(_too_short(records))
            if header.version < ZSTD_FROM and records[ATTRIBUTES_AT + 1] & CODEC_MASK == ZSTD:
                raise UnsupportedCompressionType(
                    f"Produce requests with version {header.version} are not allowed to use ZStandard compression"
                )
            verified: VerificationGuard | bool = False
            if records[ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                verdict = _verdict(verdicts, partition)
                if isinstance(verdict, RefusedWrite):
                    result.error_code, result.error_message = verdict
                    return None
                verified = verdict
            appended = partition.append(
                records, acks=acks, now_ms=now_ms, transaction_verified=verified, prepared=prepared
            )
        except Unprepared:
            raise
        except Exception as error:
            self.refused(result, error, topic, header)
            return None
        partition.bytes_in += len(records)
        partition.messages_in += appended.last_offset - appended.base_offset + 1
        result.base_offset = appended.base_offset
        result.log_append_time_ms = appended.log_append_time_ms
        result.log_start_offset = appended.log_start_offset
        if acks == ALL_REPLICAS and appended.last_offset >= partition.marks.high_watermark:
            return partition, appended.last_offset + 1
        return None

    def refused(self, result: PartitionResult, error: Exception, topic: HostedTopic | None, header: Header) -> None:
        self._context.metrics.failed_produces.add()
        if isinstance(error, Refusal):
            _fill_error(result, error, topic)
            return
        result.error_code = UNKNOWN_SERVER_ERROR
        name = None if topic is None else topic.name
        log.error("produce to %s-%d by client %r failed", name, result.index, header.client_id, exc_info=error)

    def _no_partition(self, topic: HostedTopic | None, key: bytes, index: int, *, by_id: bool) -> Refusal:
        if topic is not None and topic.internal:
            return InvalidTopic("The request attempted to perform an operation on an invalid topic.")
        return not_hosted(self._context, key, index, by_id=by_id)

    def _refuse_all(self, request: ProduceRequest, header: Header, refusal: Refusal) -> Parts:
        topics = [
            (key, [PartitionResult(index, refusal.code, error_message=refusal.message) for index, _ in partitions])
            for key, partitions in request.topics
        ]
        return [write_produced(header, topics)]


def _may_write_in_transaction(request: ProduceRequest, header: Header) -> bool:
    """Return whether the request may write in its transaction; without transactional batches it does not."""
    if not any(
        records is not None and len(records) >= HEADER_SIZE and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL
        for _, partitions in request.topics
        for _, records in partitions
    ):
        return True
    rights: Rights = header.rights
    assert request.transactional_id is not None, "other requests cannot have transactional batches"
    return rights.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, api_key=header.api_key
    )


def write_produced(header: Header, topics: list[TopicResults]) -> bytes:
    return write_response(header.version, header.correlation_id, topics, throttle_ms=header.throttle_ms)


def _verdict(verdicts: Verdicts | None, partition: Partition) -> VerificationGuard | RefusedWrite | bool:
    if verdicts is None:
        raise TransactionalIdAuthorizationFailed
    # Not verified: the transaction is already open in this partition, or the log refuses the batch.
    return verdicts.get(partition, False)


def _too_short(records: memoryview | None) -> str:
    if not records:
        return "Produce requests with a null or empty record set are not allowed"
    return f"A record batch has at least {HEADER_SIZE} bytes, this one {len(records)}"


def _fill_error(result: PartitionResult, refusal: Refusal, topic: HostedTopic | None) -> None:
    result.error_code = refusal.code
    result.error_message = refusal.message
    if isinstance(refusal, RecordRefusal) and topic is not None and result.index in topic.partitions:
        result.record_errors = refusal.record_errors
        result.log_start_offset = topic.partitions[result.index].log.start_offset
