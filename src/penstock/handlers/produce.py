"""Produce, versions 3-13. Hot: a plain function per frame, no coroutine.

acks=1 answers once the records are written, acks=all once they are durable on every in-sync
replica and below the high watermark, acks=0 not at all: an error then closes the connection,
which is the only way to tell such a client. Records pass through untouched; storage checks
them. One partition's refusal leaves the others of the request alone (KIP-467 names records),
and says who leads where this node does not (KIP-951).
Version 13 names topics by id. Transactional batches go to verification.py first. Goes to
replication/replicas.py.
"""

import logging

from penstock.handlers.context import Context
from penstock.handlers.fetch_errors import HINTED, endpoints_of, leader_hint, not_hosted
from penstock.handlers.reply import NO_REPLY, Parked, Parts
from penstock.handlers.verification import CloseConnection, RefusedWrite, Verdicts, Verifier
from penstock.model.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    RecordRefusal,
    Refusal,
    UnsupportedCompressionType,
)
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.replication.replicas import HostedTopic
from penstock.replication.waiting import WaitingProduce
from penstock.storage.verification import Verification
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
    """An acks=all request whose records are written but not yet durable everywhere."""

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

    def wait(self, partition: Partition, offset: int, result: PartitionResult) -> None:
        self._outstanding += 1

        def done(error_code: int) -> None:
            if error_code:
                result.error_code = error_code
                result.base_offset = -1
            self._outstanding -= 1
            if self._outstanding == 0:
                self.ready([self._handler.write(self._header, self._topics, self._listener)])

        partition.wait_durable(WaitingProduce(offset, self._deadline, done))


class ProduceHandler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._replicas = context.replicas
        self._clock = context.clock
        self._wakeups = context.replicas.wakeups
        self._verifier = Verifier(context, self._apply)

    def handle(self, frame: memoryview, header: Header, listener: str = "PLAINTEXT") -> Parts | Parked:
        request = read_request(frame, header.body_position, header.version)
        if request.acks not in (ALL_REPLICAS, 0, 1):
            return self._refuse_all(request, header, InvalidRequiredAcks())
        if request.transactional_id is None:
            return self._apply(request, header, None, listener)
        try:
            return self._verifier.handle(frame, request, header, listener)
        except InvalidProducerIdMapping as refusal:
            return self._refuse_all(request, header, refusal)

    def _apply(
        self, request: ProduceRequest, header: Header, verdicts: Verdicts | None, listener: str
    ) -> Parts | Parked:
        """Write the batches; transactional ones only with the coordinator's verdicts."""
        # Followers that wait are answered once, with all that this request brings.
        self._wakeups.held = True
        try:
            return self._write_all(request, header, verdicts, listener)
        finally:
            self._wakeups.held = False
            self._wakeups.run()

    def _write_all(
        self, request: ProduceRequest, header: Header, verdicts: Verdicts | None, listener: str
    ) -> Parts | Parked:
        acks = request.acks
        hosted = self._replicas.by_id if header.version >= TOPIC_ID_FROM else self._replicas.by_name
        now_ms = self._clock.wall_ms()
        topics: list[TopicResults] = []
        parked: ParkedProduce | None = None
        failed = False
        for key, partitions in request.topics:
            topic = hosted.get(key)
            results: list[PartitionResult] = []
            topics.append((key, results))
            for index, records in partitions:
                result = PartitionResult(index)
                results.append(result)
                waits_for = self._write(topic, key, records, acks, now_ms, header, result, verdicts)
                if waits_for is not None:
                    deadline = self._clock.monotonic() + request.timeout_ms / 1000
                    parked = parked or ParkedProduce(self, header, listener, topics, deadline)
                    parked.wait(*waits_for, result)
                failed = failed or result.error_code != NO_ERROR
        if parked is not None:
            return parked
        if acks == 0:
            if failed:
                raise CloseConnection
            return NO_REPLY
        return [self.write(header, topics, listener) if failed else write_produced(header, topics)]

    def write(self, header: Header, topics: list[TopicResults], listener: str) -> bytes:
        """The response, with the way to the leader where this node is not (KIP-951)."""
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

    def _write(
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
        """Append one partition's records and fill in the result; returns the mark that acks=all waits for."""
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
            if records[ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                verified = _verdict(verdicts, partition)
                if isinstance(verified, RefusedWrite):
                    result.error_code, result.error_message = verified
                    return None
                appended = partition.append(records, acks=acks, now_ms=now_ms, transaction_verified=verified)
            else:
                appended = partition.append(records, acks=acks, now_ms=now_ms)
        except Refusal as refusal:
            self._context.metrics.failed_produces.add()
            _tell(result, refusal, topic)
            return None
        except Exception:
            self._context.metrics.failed_produces.add()
            result.error_code = UNKNOWN_SERVER_ERROR
            name = None if topic is None else topic.name
            log.exception("produce to %s-%d by client %r failed", name, result.index, header.client_id)
            return None
        partition.bytes_in += len(records)
        partition.messages_in += appended.last_offset - appended.base_offset + 1
        result.base_offset = appended.base_offset
        result.log_append_time_ms = appended.log_append_time_ms
        result.log_start_offset = appended.log_start_offset
        if acks == ALL_REPLICAS and appended.last_offset >= partition.high_watermark:
            return partition, appended.last_offset + 1
        return None

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


def write_produced(header: Header, topics: list[TopicResults]) -> bytes:
    return write_response(header.version, header.correlation_id, topics, throttle_ms=header.throttle_ms)


def _verdict(verdicts: Verdicts | None, partition: Partition) -> Verification | RefusedWrite | bool:
    if verdicts is None:
        raise TransactionalIdAuthorizationFailed
    # Not asked about: the transaction is open there already, or the log refuses the batch.
    return verdicts.get(partition, False)


def _too_short(records: memoryview | None) -> str:
    if not records:
        return "Produce requests with a null or empty record set are not allowed"
    return f"A record batch has at least {HEADER_SIZE} bytes, this one {len(records)}"


def _tell(result: PartitionResult, refusal: Refusal, topic: HostedTopic | None) -> None:
    result.error_code = refusal.code
    result.error_message = refusal.message
    if isinstance(refusal, RecordRefusal) and topic is not None and result.index in topic.partitions:
        result.record_errors = refusal.record_errors
        result.log_start_offset = topic.partitions[result.index].log.start_offset
