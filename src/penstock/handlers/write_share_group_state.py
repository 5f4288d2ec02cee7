"""WriteShareGroupState, versions 0-1: writes outcomes of records. v1 adds the number of finished records (KIP-1226).

Sent by share-partition leaders. Each partition of the request is decided separately. Goes to shares/service.py.
Refuses, per partition: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH,
UNKNOWN_TOPIC_OR_PARTITION, and what every coordinator refuses.
"""

from kio.schema.errors import ErrorCode
from kio.schema.write_share_group_state.v1.request import PartitionData
from kio.schema.write_share_group_state.v1.response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import int32
from penstock.handlers.support.share_requests import ask_for_each
from penstock.shares.commands import StateReply, WriteState
from penstock.shares.states import SharePartitionKey, StateRange


async def handle(context: Context, request: Request) -> WriteShareGroupStateResponse:
    results = await ask_for_each(context, request.body, _command, _result, WriteStateResult)
    return WriteShareGroupStateResponse(results=results)


def _command(key: SharePartitionKey, partition: PartitionData) -> WriteState:
    return WriteState(
        key,
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        tuple(
            StateRange(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in partition.state_batches
        ),
        partition.delivery_complete_count,
    )


def _result(index: int, reply: StateReply) -> PartitionResult:
    return PartitionResult(
        partition=int32(index),
        error_code=ErrorCode(reply.error),
        error_message=reply.message,
    )
