"""AddOffsetsToTxn, versions 0-4: adds a group's offsets to a transaction.

Adds the group's partition of `__consumer_offsets` to the transaction, and creates that topic if it does not
exist. v2 adds PRODUCER_FENCED. Clients of transaction version 2 do not need it: TxnOffsetCommit
adds the partition. Goes to transactions/partitions.py. Refuses: COORDINATOR_NOT_AVAILABLE without that topic,
and what the coordinator refuses.
"""

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.errors import ErrorCode

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.coordinator.keys import partition_of
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.handlers.support.topic_creation import ensure_topic
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal
from penstock.model.ids import PartitionIndex, TopicPartition
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.transactions.client_codes import for_client
from penstock.transactions.commands import AddPartitions
from penstock.transactions.errors import TransactionalIdAuthorizationFailed


async def handle(context: Context, request: Request) -> AddOffsetsToTxnResponse:
    try:
        body: AddOffsetsToTxnRequest = request.body
        if not request.may_on_transactional_id(Operation.WRITE, body.transactional_id):
            raise TransactionalIdAuthorizationFailed
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        error = await _add(context, body)
    except Refusal as refusal:
        error = refusal.code
    code_for_client = ErrorCode(for_client(error, version=request.header.version))
    return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=code_for_client)


async def _add(context: Context, body: AddOffsetsToTxnRequest) -> int:
    topic = await ensure_topic(context, CONSUMER_OFFSETS)
    if topic is None:
        raise CoordinatorNotAvailable
    index = PartitionIndex(partition_of(body.group_id, len(topic.partitions)))
    error: int = await context.transactions.add_partitions(
        AddPartitions(
            transactional_id=body.transactional_id,
            producer_id=body.producer_id,
            epoch=body.producer_epoch,
            partitions=frozenset({TopicPartition(CONSUMER_OFFSETS, index)}),
        )
    )
    return error
