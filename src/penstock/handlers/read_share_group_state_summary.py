"""ReadShareGroupStateSummary, versions 0-1: start offsets of share partitions.

v1 adds the number of finished records (KIP-1226). Sent by group coordinators. Each partition of the request is
decided separately. Goes to shares/service.py. Refuses, per partition: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
and what every coordinator refuses.
"""

from kio.schema.errors import ErrorCode
from kio.schema.read_share_group_state_summary.v1.request import PartitionData
from kio.schema.read_share_group_state_summary.v1.response import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import int32, int64
from penstock.handlers.support.share_requests import ask_for_each
from penstock.shares.commands import ReadSummary, StateReply
from penstock.shares.states import SharePartitionKey


async def handle(context: Context, request: Request) -> ReadShareGroupStateSummaryResponse:
    results = await ask_for_each(context, request.body, _command, _result, ReadStateSummaryResult)
    return ReadShareGroupStateSummaryResponse(results=results)


def _command(key: SharePartitionKey, partition: PartitionData) -> ReadSummary:
    return ReadSummary(key)


def _result(index: int, reply: StateReply) -> PartitionResult:
    return PartitionResult(
        partition=int32(index),
        error_code=ErrorCode(reply.error),
        error_message=reply.message,
        state_epoch=int32(reply.state_epoch),
        leader_epoch=int32(reply.leader_epoch),
        start_offset=int64(reply.start_offset),
        delivery_complete_count=int32(reply.complete_count),
    )
