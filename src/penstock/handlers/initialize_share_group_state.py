"""InitializeShareGroupState, version 0: creates the state of share partitions, or starts it over in a new epoch.

Sent by group coordinators. Each partition of the request is decided separately. Goes to shares/service.py. Refuses,
per partition: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, and what every coordinator refuses.
"""

from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0.request import PartitionData
from kio.schema.initialize_share_group_state.v0.response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import int32
from penstock.handlers.support.share_requests import ask_for_each
from penstock.shares.commands import InitializeState, StateReply
from penstock.shares.states import SharePartitionKey


async def handle(context: Context, request: Request) -> InitializeShareGroupStateResponse:
    results = await ask_for_each(context, request.body, _command, _result, InitializeStateResult)
    return InitializeShareGroupStateResponse(results=results)


def _command(key: SharePartitionKey, partition: PartitionData) -> InitializeState:
    return InitializeState(key, partition.state_epoch, partition.start_offset)


def _result(index: int, reply: StateReply) -> PartitionResult:
    return PartitionResult(
        partition=int32(index),
        error_code=ErrorCode(reply.error),
        error_message=reply.message,
    )
