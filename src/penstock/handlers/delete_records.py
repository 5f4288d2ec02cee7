"""DeleteRecords, versions 0-2: moves the log start offset forward. The janitor frees the space later.

-1 means the high watermark: everything that consumers can read. An offset below the log start changes nothing
and is not an error. If a partition occurs twice, the later offset counts, as in Kafka. The response waits
until every live replica has moved its log start, and contains the lowest of them. Check and
change are one synchronous step. Goes to replication/partition.py. Refuses: per partition, REQUEST_TIMED_OUT,
OFFSET_OUT_OF_RANGE beyond the high watermark, POLICY_VIOLATION for topics that are only compacted,
INVALID_TOPIC_EXCEPTION for internal topics, NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode

from penstock.client.channel import pause
from penstock.handlers.support.cluster_view import find_partition
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, int64, topic_name
from penstock.handlers.support.visibility import wait_until_visible
from penstock.model.acl import Operation
from penstock.model.errors import (
    InvalidTopic,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    Refusal,
    RequestTimedOut,
    StorageError,
    TopicAuthorizationFailed,
)
from penstock.model.ids import NO_OFFSET, Offset
from penstock.model.topic import is_internal

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

HIGH_WATERMARK: Final = -1
CHECK_INTERVAL_S: Final = 0.01


async def handle(context: Context, request: Request) -> DeleteRecordsResponse:
    body: DeleteRecordsRequest = request.body
    offsets: dict[str, dict[int, int]] = {}
    for topic in body.topics:
        requested = offsets.setdefault(topic.name, {})
        requested.update((partition.partition_index, partition.offset) for partition in topic.partitions)
    denied = {name for name in offsets if not request.may_on_topic(Operation.DELETE, name)}
    await wait_until_visible(
        context,
        [(name, index) for name, requested in offsets.items() if name not in denied for index in requested],
        request.pace,
    )
    moved = {
        name: {
            index: TopicAuthorizationFailed() if name in denied else _advance_start(context, name, index, offset)
            for index, offset in requested.items()
        }
        for name, requested in offsets.items()
    }
    unsaved = await _saved(context)
    deadline = context.clock.monotonic() + body.timeout.total_seconds()
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                DeleteRecordsTopicResult(
                    name=topic_name(name),
                    partitions=tuple(
                        [
                            await _outcome(context, index, outcome, unsaved, deadline)
                            for index, outcome in requested.items()
                        ]
                    ),
                )
                for name, requested in moved.items()
            ]
        ),
    )


async def _saved(context: Context) -> StorageError | None:
    """Wait until the new log starts are durable: an acknowledged deletion must survive a power loss."""
    saved: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    context.store.log_starts.when_saved(lambda error: None if saved.done() else saved.set_result(error))
    error = await saved
    return None if error is None else StorageError(f"cannot save the new log start offset: {error}")


async def _outcome(
    context: Context,
    index: int,
    outcome: "tuple[Partition, int] | Refusal",
    unsaved: StorageError | None,
    deadline: float,
) -> DeleteRecordsPartitionResult:
    """Wait until the log start has moved on every live replica."""
    if isinstance(outcome, Refusal):
        return _result(index, NO_OFFSET, failed(outcome))
    if unsaved is not None:
        return _result(index, NO_OFFSET, failed(unsaved))
    partition, start = outcome
    while partition.low_watermark < start:
        if context.clock.monotonic() >= deadline:
            return _result(index, partition.low_watermark, failed(RequestTimedOut()))
        if not partition.is_leader:
            return _result(index, NO_OFFSET, failed(NotLeaderOrFollower()))
        await pause(context.clock, CHECK_INTERVAL_S)
    return _result(index, partition.low_watermark, NO_ERROR)


def _advance_start(context: Context, topic: str, index: int, offset: int) -> "tuple[Partition, int] | Refusal":
    try:
        return _advance(context, topic, index, offset)
    except Refusal as refusal:
        return refusal


def _advance(context: Context, topic: str, index: int, offset: int) -> "tuple[Partition, int]":
    partition = find_partition(context, topic, index)
    if is_internal(topic):
        raise InvalidTopic(f"Cannot delete records of internal topic {topic}")
    if not partition.is_leader:
        raise NotLeaderOrFollower
    log = partition.log
    if log.settings.compact and not log.settings.delete:
        raise PolicyViolation(f"Records of partition {topic}-{index} can not be deleted due to the configured policy")
    start = partition.high_watermark if offset == HIGH_WATERMARK else Offset(offset)
    if not 0 <= start <= partition.high_watermark:
        raise OffsetOutOfRange(f"The offset {start} for partition {topic}-{index} is not valid")
    if start > log.start_offset:
        partition.delete_before(start)
    return partition, start


def _result(index: int, low_watermark: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=int32(index), low_watermark=int64(low_watermark), error_code=error
    )
