"""Transactional writes, which the coordinator is asked about before they are written (KIP-890).

Only the first batch of a transaction in a partition pays: from then on the partition knows that the
transaction is open. Produce 12 and later has the partition added to the transaction, earlier versions had it
added by the client and have that verified. While the answer is awaited the request is parked, and the requests
behind it on its connection are not looked at, so that no batch overtakes it. Goes to
transactions/service.py, and back to produce.py for the writing.
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
    PenstockError,
    Refusal,
)
from penstock.model.ids import PartitionIndex, TopicPartition
from penstock.ports.network import Connection, KeptFrame, copied
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
    """An acks=0 request failed: closing is the only answer such a client can notice."""


class RefusedWrite(NamedTuple):
    """What a client is told of a batch that its coordinator did not let pass."""

    error_code: int
    error_message: str | None


Verdicts = Mapping[Partition, VerificationGuard | RefusedWrite | bool]
"""Of the partitions that the coordinator was asked about."""

Apply = Callable[[ProduceRequest, Header, Verdicts, str], Parts | Parked]
"""Write the batches, for a client on the named listener."""
ApplyKept = Callable[[ProduceRequest, Header, Verdicts, str, KeptFrame], Parts | Parked]


class _Asked(NamedTuple):
    """The batches of one request that the coordinator has to be asked about."""

    producer_id: int
    epoch: int
    partitions: dict[Partition, VerificationGuard]
    places: tuple[TopicPartition, ...]


class Verifier:
    def __init__(self, context: Context, apply: Apply, apply_kept: ApplyKept) -> None:
        """`apply` writes a request whose frame is at hand, `apply_kept` one whose frame was kept, and releases it."""
        self._context = context
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
        """Write now if nobody has to be asked or the answer is there, or else once it is."""
        write = of_produce(header.version)
        asked = self._begin(request, header, write)
        if asked is None:
            raise InvalidProducerIdMapping("Transactional records contained more than one producer ID")
        if not asked.partitions:
            return self._apply(request, header, {}, listener)
        if not write.adds and not self._context.settings["transaction.partition.verification.enable"]:
            return self._apply(request, header, dict.fromkeys(asked.partitions, True), listener)
        assert request.transactional_id is not None
        command = _command(request.transactional_id, asked, write)
        try:
            answer = self._context.transaction_coordinators.submit(command)
        except Refusal as refusal:
            return self._apply(request, header, _verdicts(asked, write, refusal), listener)
        if answer.done() and not _is_early(answer):
            verdicts = _verdicts(asked, write, answer.exception() or answer.result())
            return self._apply(request, header, verdicts, listener)
        # The frame is the port's again after this call.
        kept = copied(frame) if connection is None else connection.keep_frame(frame)
        request = read_request(kept.view, header.body_position, header.version)
        parked = ParkedWrite()
        finishing = self._finish(parked, kept, request, header, listener, asked, write, command, answer)
        task = asyncio.ensure_future(finishing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return parked

    def _begin(self, request: ProduceRequest, header: Header, write: Write) -> _Asked | None:
        """Which batches are to be asked about; None if they are of several producers."""
        replicas = self._context.replicas
        hosted = replicas.by_id if header.version >= TOPIC_ID_FROM else replicas.by_name
        producers: set[tuple[int, int]] = set()
        partitions: dict[Partition, VerificationGuard] = {}
        places: list[TopicPartition] = []
        for key, batches in request.topics:
            topic = hosted.get(key)
            if topic is None or topic.internal:
                continue
            for index, records in batches:
                partition = topic.partitions.get(index)
                if partition is None or records is None or len(records) < HEADER_SIZE:
                    continue
                producer_id, epoch, sequence = _read_producer(records, PRODUCER_ID_AT)
                if producer_id < 0 or not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                    continue
                producers.add((producer_id, epoch))
                known = partition.log.producer_state
                verification = known.begin_verification(producer_id, epoch, sequence, starts_at_zero=write.adds)
                if verification is not None:
                    partitions[partition] = verification
                    places.append(TopicPartition(topic.name, PartitionIndex(index)))
        if len(producers) > 1:
            return None
        return _Asked(*next(iter(producers), (-1, -1)), partitions, tuple(places))

    async def _finish(
        self,
        parked: ParkedWrite,
        kept: KeptFrame,
        request: ProduceRequest,
        header: Header,
        listener: str,
        asked: _Asked,
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
            # The client is gone, and will send it again.
            kept.release()
            return
        try:
            reply = self._apply_kept(request, header, _verdicts(asked, write, outcome), listener, kept)
        except CloseConnection:
            parked.fail()
            return
        except Exception:
            log.exception("%r failed", header)
            parked.fail()
            return
        parked.applied(reply)


def _command(transactional_id: str, asked: _Asked, write: Write) -> AddPartitions | VerifyPartitions:
    if write.adds:
        return AddPartitions(
            transactional_id=transactional_id,
            producer_id=asked.producer_id,
            epoch=asked.epoch,
            partitions=frozenset(asked.places),
            client_version=VERSION_EPOCH_BUMP,
        )
    return VerifyPartitions(
        transactional_id=transactional_id, producer_id=asked.producer_id, epoch=asked.epoch, partitions=asked.places
    )


def _is_early(answer: "asyncio.Future[Any]") -> bool:
    """Whether the transaction before is still being ended, which will not take long."""
    return answer.exception() is None and answer.result() == ConcurrentTransactions.code


def _verdicts(asked: _Asked, write: Write, outcome: Any) -> Verdicts:
    """What the coordinator's answer means for each partition: a code for all, or one for each."""
    if isinstance(outcome, BaseException):
        outcome = outcome.code if isinstance(outcome, Refusal) else UNKNOWN_SERVER_ERROR
    codes = outcome if isinstance(outcome, tuple) else (outcome,) * len(asked.partitions)
    return {
        partition: verification if code == NO_ERROR else _refused(code, write)
        for (partition, verification), code in zip(asked.partitions.items(), codes, strict=True)
    }


def _refused(code: int, write: Write) -> RefusedWrite:
    shown = for_produce(code, write)
    message = None
    if shown == NotEnoughReplicas.code:
        underlying = ErrorCode(code).name.upper()
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {underlying}"
    elif shown == InvalidTxnState.code:
        message = "Partition was not added to the transaction"
    return RefusedWrite(shown, message)
