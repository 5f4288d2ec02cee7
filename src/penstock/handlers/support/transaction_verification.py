"""Verification of transactional writes with the coordinator before they are appended (KIP-890).

Only the first batch of a transaction in a partition pays: after it the partition knows that the
transaction is open. Produce 12 and later adds the partition to the transaction; with earlier versions the client
has added it, and that is verified. While the response is awaited the request is parked, and the requests
behind it on its connection are not read, so that no batch overtakes it. Goes to
transactions/service.py, and back to produce.py for the append.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context
from penstock.handlers.support.reply import Parked, ParkedWrite, Parts
from penstock.model.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    InvalidTxnState,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    PenstockError,
    Refusal,
)
from penstock.model.ids import PartitionIndex, TopicPartition
from penstock.ports.network import Connection, KeptFrame, copied
from penstock.replication.hosted_topic import HostedTopic
from penstock.replication.partition import Partition
from penstock.storage.verification_guard import VerificationGuard
from penstock.transactions.client_codes import Write, for_produce, of_produce
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.errors import ConcurrentTransactions, InvalidProducerIdMapping
from penstock.transactions.settings import VERSION_EPOCH_BUMP
from penstock.wire.batch import ATTRIBUTES_AT, HEADER_SIZE, PRODUCER_ID_AT, TRANSACTIONAL
from penstock.wire.frame import Header
from penstock.wire.hot.produce import TOPIC_ID_FROM, ProduceRequest, read_request

log = logging.getLogger(__name__)

_read_producer: Final = Struct(">qhi").unpack_from


class CloseConnection(PenstockError):
    """An acks=0 request failed: such a client notices only a closed connection."""


class RefusedWrite(NamedTuple):
    """The error for a batch that the coordinator has not accepted."""

    error_code: int
    error_message: str | None


Verdicts = Mapping[Partition, VerificationGuard | RefusedWrite | bool]
"""The results for the partitions that were verified."""

Apply = Callable[[ProduceRequest, Header, Verdicts, str], Parts | Parked]
"""Appends the batches of a client on the named listener."""
ApplyKept = Callable[[ProduceRequest, Header, Verdicts, str, KeptFrame], Parts | Parked]
MayWrite = Callable[[bytes, HostedTopic | None, Header], bool]


class _Unverified(NamedTuple):
    """The batches of one request that must be verified."""

    producer_id: int
    epoch: int
    partitions: dict[Partition, VerificationGuard]
    topic_partitions: tuple[TopicPartition, ...]
    missing: tuple[tuple[HostedTopic, int], ...]
    """Partitions that are not open, for example because they are being recovered after a start."""


class Verifier:
    def __init__(
        self, context: Context, apply: Apply, apply_kept: ApplyKept, may_write: MayWrite | None = None
    ) -> None:
        """Create a verifier; `apply` appends a request during the call, `apply_kept` one whose frame it releases."""
        self._context = context
        self._may_write = may_write
        self._apply = apply
        self._apply_kept = apply_kept
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(
        self,
        frame: memoryview,
        request: ProduceRequest,
        header: Header,
        listener: str,
        connection: Connection | None = None,
    ) -> Parts | Parked:
        """Append now if no verification is needed or it is complete, otherwise when it completes."""
        write = of_produce(header.version)
        unverified = self._begin(request, header, write)
        if unverified is None:
            raise InvalidProducerIdMapping("Transactional records contained more than one producer ID")
        if not unverified.partitions:
            return self._apply(request, header, {}, listener)
        if not write.adds and not self._context.settings["transaction.partition.verification.enable"]:
            return self._apply(request, header, dict.fromkeys(unverified.partitions, True), listener)
        assert request.transactional_id is not None
        command = _command(request.transactional_id, unverified, write)
        try:
            answer = self._context.transaction_coordinators.submit(command)
        except Refusal as refusal:
            return self._apply(request, header, _verdicts(unverified, write, refusal), listener)
        if answer.done() and not _is_early(answer):
            verdicts = _verdicts(unverified, write, answer.exception() or answer.result())
            return self._apply(request, header, verdicts, listener)
        # The frame belongs to the port again after this call.
        kept = copied(frame) if connection is None else connection.keep_frame(frame)
        request = read_request(kept.view, header.body_position, header.version)
        parked = ParkedWrite()
        finishing = self._finish(parked, kept, request, header, listener, unverified, write, command, answer)
        task = asyncio.ensure_future(finishing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return parked

    def _begin(self, request: ProduceRequest, header: Header, write: Write) -> _Unverified | None:
        """Return the batches that must be verified; None if they are of several producers."""
        replicas = self._context.replicas
        hosted = replicas.by_id if header.version >= TOPIC_ID_FROM else replicas.by_name
        producers: set[tuple[int, int]] = set()
        partitions: dict[Partition, VerificationGuard] = {}
        topic_partitions: list[TopicPartition] = []
        missing: list[tuple[HostedTopic, int]] = []
        for key, batches in request.topics:
            topic = hosted.get(key)
            if topic is None or topic.internal or not self._is_allowed(key, topic, header):
                continue
            for index, records in batches:
                partition = topic.partitions.get(index)
                if partition is None:
                    missing.append((topic, index))
                    continue
                if records is None or len(records) < HEADER_SIZE:
                    continue
                producer_id, epoch, sequence = _read_producer(records, PRODUCER_ID_AT)
                if producer_id < 0 or not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                    continue
                producers.add((producer_id, epoch))
                known = partition.log.producer_state
                verification = known.begin_verification(producer_id, epoch, sequence, starts_at_zero=write.adds)
                if verification is not None:
                    partitions[partition] = verification
                    topic_partitions.append(TopicPartition(topic.name, PartitionIndex(index)))
        if len(producers) > 1:
            return None
        producer = next(iter(producers), (-1, -1))
        return _Unverified(*producer, partitions, tuple(topic_partitions), tuple(missing))

    def _is_allowed(self, key: bytes, topic: HostedTopic, header: Header) -> bool:
        """Return whether the client may write to the topic; otherwise nothing is added to its transaction."""
        return self._may_write is None or self._may_write(key, topic, header)

    async def _finish(
        self,
        parked: ParkedWrite,
        kept: KeptFrame,
        request: ProduceRequest,
        header: Header,
        listener: str,
        unverified: _Unverified,
        write: Write,
        command: AddPartitions | VerifyPartitions,
        answer: "asyncio.Future[Any]",
    ) -> None:
        outcome: Any
        try:
            outcome = await answer
            if outcome == ConcurrentTransactions.code and isinstance(command, AddPartitions):
                outcome = await self._context.transaction_coordinators.add_partitions(command)
        except Exception as error:
            outcome = error
        if parked.on_ready is None:
            # The client is gone, and will retry.
            kept.release()
            return
        try:
            reply = self._apply_kept(request, header, _verdicts(unverified, write, outcome), listener, kept)
        except CloseConnection:
            parked.fail()
            return
        except Exception:
            log.exception("%r failed", header)
            parked.fail()
            return
        parked.applied(reply)


def _command(transactional_id: str, unverified: _Unverified, write: Write) -> AddPartitions | VerifyPartitions:
    if write.adds:
        return AddPartitions(
            transactional_id=transactional_id,
            producer_id=unverified.producer_id,
            epoch=unverified.epoch,
            partitions=frozenset(unverified.topic_partitions),
            client_version=VERSION_EPOCH_BUMP,
        )
    return VerifyPartitions(
        transactional_id=transactional_id,
        producer_id=unverified.producer_id,
        epoch=unverified.epoch,
        partitions=unverified.topic_partitions,
    )


def _is_early(answer: "asyncio.Future[Any]") -> bool:
    """Return whether the previous transaction is still being ended, which will not take long."""
    return answer.exception() is None and answer.result() == ConcurrentTransactions.code


def _verdicts(unverified: _Unverified, write: Write, outcome: Any) -> Verdicts:
    """Return the result for each partition: the coordinator's response has a code for all, or one for each."""
    if isinstance(outcome, BaseException):
        outcome = outcome.code if isinstance(outcome, Refusal) else UNKNOWN_SERVER_ERROR
    codes = outcome if isinstance(outcome, tuple) else (outcome,) * len(unverified.partitions)
    verdicts: dict[Partition, VerificationGuard | RefusedWrite | bool] = {
        partition: verification if code == NO_ERROR else _refused(code, write)
        for (partition, verification), code in zip(unverified.partitions.items(), codes, strict=True)
    }
    for topic, index in unverified.missing:
        partition = topic.partitions.get(index)
        if partition is not None:
            # It was opened meanwhile. The log would refuse the batch with an error that ends the transaction.
            verdicts[partition] = RefusedWrite(NotLeaderOrFollower.code, None)
    return verdicts


def _refused(code: int, write: Write) -> RefusedWrite:
    code_for_client = for_produce(code, write)
    message = None
    if code_for_client == NotEnoughReplicas.code:
        underlying = ErrorCode(code).name.upper()
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {underlying}"
    elif code_for_client == InvalidTxnState.code:
        message = "Partition was not added to the transaction"
    return RefusedWrite(code_for_client, message)
