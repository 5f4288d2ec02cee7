"""ReadShareGroupState, version 0: reads the state of share partitions, and fences earlier leaders.

Sent by share-partition leaders. Each partition of the request is decided separately. Goes to shares/service.py.
Refuses, per partition: INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, and what every coordinator
refuses.
"""

from kio.schema.errors import ErrorCode
from kio.schema.read_share_group_state.v0.request import PartitionData
from kio.schema.read_share_group_state.v0.response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import int8, int16, int32, int64
from penstock.handlers.support.share_requests import ask_for_each
from penstock.shares.commands import ReadState, StateReply
from penstock.shares.states import SharePartitionKey


async def handle(context: Context, request: Request) -> ReadShareGroupStateResponse:
    results = await ask_for_each(context, request.body, _command, _result, ReadStateResult)
    return ReadShareGroupStateResponse(results=results)


def _command(key: SharePartitionKey, partition: PartitionData) -> ReadState:
    return ReadState(key, partition.leader_epoch)


def _result(index: int, reply: StateReply) -> PartitionResult:
    return PartitionResult(
        partition=int32(index),
        error_code=ErrorCode(reply.error),
        error_message=reply.message,
        state_epoch=int32(reply.state_epoch),
        start_offset=int64(reply.start_offset),
        state_batches=tuple(
            StateBatch(
                first_offset=int64(each.first),
                last_offset=int64(each.last),
                delivery_state=int8(each.state),
                delivery_count=int16(each.delivery_count),
            )
            for each in reply.ranges
        ),
    )
