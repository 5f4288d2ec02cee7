"""TxnOffsetCommit, versions 0-5: offsets of a group that are committed with the producer's transaction.

v2 adds the leader epoch, v3 the member for which the producer commits (KIP-447), v4 TRANSACTION_ABORTABLE. From v5 on
this handler adds the group's partition of `__consumer_offsets` to the transaction; before that AddOffsetsToTxn
did, which is verified (KIP-890). Only the first commit of a transaction to the partition needs this. Goes
to transactions/service.py, then to groups/offsets.py. Refuses, per partition: UNKNOWN_TOPIC_OR_PARTITION,
OFFSET_METADATA_TOO_LARGE, and for all of them what the coordinator of the transaction or the group refuses.
"""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from penstock.coordinator.decision import InTransaction
from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable
from penstock.coordinator.runtime import answer_of
from penstock.groups.commands import OffsetCommitReply, OffsetToCommit, TxnOffsetCommit
from penstock.groups.errors import InvalidGroupId
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int32, topic_name
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed, UnknownTopicOrPartition
from penstock.model.ids import TopicName
from penstock.transactions.client_codes import for_writer, of_txn_offset_commit
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.errors import TransactionalIdAuthorizationFailed
from penstock.transactions.settings import VERSION_EPOCH_BUMP

if TYPE_CHECKING:
    from penstock.storage.verification_guard import VerificationGuard

LOADING_KNOWN_FROM: Final = 2


async def handle(context: Context, request: Request) -> TxnOffsetCommitResponse:
    body: TxnOffsetCommitRequest = request.body
    version = request.header.version
    image = context.quorum.image
    # First the errors found here, then those of the group, as in Kafka.
    results: dict[str, list[tuple[int, int]]] = {}
    offsets: list[OffsetToCommit] = []
    denial = _denial(request, body)
    for named in body.topics:
        error = denial
        if not error and not request.may_on_topic(Operation.READ, named.name):
            error = TopicAuthorizationFailed.code
        if error:
            results.setdefault(named.name, []).extend((each.partition_index, error) for each in named.partitions)
            continue
        topic = image.topics.get(TopicName(named.name))
        for each in named.partitions:
            if topic is None or not 0 <= each.partition_index < len(topic.partitions):
                results.setdefault(named.name, []).append((each.partition_index, UnknownTopicOrPartition.code))
                continue
            offsets.append(
                OffsetToCommit(
                    topic=topic.name,
                    topic_id=topic.id,
                    partition=each.partition_index,
                    offset=each.committed_offset,
                    leader_epoch=each.committed_leader_epoch,
                    metadata=each.committed_metadata,
                )
            )
    if offsets:
        errors = await _commit(context, version, body, tuple(offsets))
        for committed, error in zip(offsets, errors, strict=True):
            results.setdefault(committed.topic, []).append((committed.partition, _known(error, version)))
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic_name(name),
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=int32(index), error_code=ErrorCode(error))
                    for index, error in partitions
                ),
            )
            for name, partitions in results.items()
        ),
    )


def _denial(request: Request, body: TxnOffsetCommitRequest) -> int:
    """Return the error for all topics, 0 if the client may commit to the group in the transaction."""
    if not request.may_on_transactional_id(Operation.WRITE, body.transactional_id):
        return TransactionalIdAuthorizationFailed.code
    return 0 if request.may_on_group(Operation.READ, body.group_id) else GroupAuthorizationFailed.code


def _known(error: int, version: int) -> int:
    # The oldest producers fail on the other error.
    if error == CoordinatorLoadInProgress.code and version < LOADING_KNOWN_FROM:
        return CoordinatorNotAvailable.code
    return error


async def _commit(
    context: Context, version: int, body: TxnOffsetCommitRequest, offsets: tuple[OffsetToCommit, ...]
) -> tuple[int, ...]:
    try:
        if not body.group_id:
            raise InvalidGroupId
        # Begun before the coordinator is asked: a marker that arrives meanwhile invalidates its response.
        verification = context.groups.begin_verification(body.group_id, body.producer_id, body.producer_epoch)
        verified: VerificationGuard | bool = False
        if verification is not None:
            error = await _add_or_verify(context, version, body)
            if error:
                return (error,) * len(offsets)
            verified = verification
        command = TxnOffsetCommit(
            group_id=body.group_id,
            transaction=InTransaction(body.producer_id, body.producer_epoch, verified),
            generation=body.generation_id,
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            offsets=offsets,
        )
        reply: OffsetCommitReply = await context.groups.ask(body.group_id, command)
    except Refusal as refusal:
        return (refusal.code,) * len(offsets)
    return reply.errors


async def _add_or_verify(context: Context, version: int, body: TxnOffsetCommitRequest) -> int:
    """Add the group's partition to the transaction, or verify that it was added."""
    write = of_txn_offset_commit(version)
    partition = context.groups.offsets_partition(body.group_id)
    if write.adds:
        error = await context.transaction_coordinators.add_partitions(
            AddPartitions(
                transactional_id=body.transactional_id,
                producer_id=body.producer_id,
                epoch=body.producer_epoch,
                partitions=frozenset({partition}),
                client_version=VERSION_EPOCH_BUMP,
            )
        )
        return for_writer(error, write)
    if not context.settings["transaction.partition.verification.enable"]:
        return 0
    verify = VerifyPartitions(
        transactional_id=body.transactional_id,
        producer_id=body.producer_id,
        epoch=body.producer_epoch,
        partitions=(partition,),
    )
    errors: tuple[int, ...] = await answer_of(context.transaction_coordinators.submit(verify), verify)
    return for_writer(errors[0], write)
