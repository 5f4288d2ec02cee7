"""DeleteShareGroupState, version 0: deletes the state of share partitions.

Sent by group coordinators. Each partition of the request is decided separately. Goes to shares/service.py.
Refuses, per partition: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, and what every coordinator refuses.
"""

from kio.schema.delete_share_group_state.v0.request import PartitionData
from kio.schema.delete_share_group_state.v0.response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import int32
from penstock.handlers.support.share_requests import ask_for_each
from penstock.shares.commands import DeleteState, StateReply
from penstock.shares.states import SharePartitionKey


async def handle(context: Context, request: Request) -> DeleteShareGroupStateResponse:
    results = await ask_for_each(context, request.body, _command, _result, DeleteStateResult)
    return DeleteShareGroupStateResponse(results=results)


def _command(key: SharePartitionKey, partition: PartitionData) -> DeleteState:
    return DeleteState(key)


def _result(index: int, reply: StateReply) -> PartitionResult:
    return PartitionResult(
        partition=int32(index),
        error_code=ErrorCode(reply.error),
        error_message=reply.message,
    )
