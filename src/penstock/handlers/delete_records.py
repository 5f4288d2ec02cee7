"""DeleteRecords, versions 0-2: moves the log start forward. The janitor frees the space later.

-1 means the high watermark: everything that consumers can see. An offset below the start changes
nothing and is not an error. A partition that is named twice goes by the later offset, as in Kafka.
Check and change are one synchronous step. Goes to storage/log.py. Refuses: per partition,
OFFSET_OUT_OF_RANGE beyond the high watermark, POLICY_VIOLATION for topics that are only compacted,
INVALID_TOPIC_EXCEPTION for the cluster's own topics, NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
"""

from typing import Final

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.cluster_view import find_partition
from penstock.handlers.context import Context, Request
from penstock.handlers.entities import NO_ERROR, NO_THROTTLE, failed, int32, int64, topic_name
from penstock.handlers.shown import until_shown
from penstock.model.errors import InvalidTopic, NotLeaderOrFollower, OffsetOutOfRange, PolicyViolation, Refusal
from penstock.model.ids import NO_OFFSET, Offset
from penstock.model.topic import is_internal

HIGH_WATERMARK: Final = -1


async def handle(context: Context, request: Request) -> DeleteRecordsResponse:
    body: DeleteRecordsRequest = request.body
    offsets: dict[str, dict[int, int]] = {}
    for topic in body.topics:
        asked = offsets.setdefault(topic.name, {})
        asked.update((partition.partition_index, partition.offset) for partition in topic.partitions)
    await until_shown(context, [(name, index) for name, asked in offsets.items() for index in asked])
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic_name(name),
                partitions=tuple(_delete(context, name, index, offset) for index, offset in asked.items()),
            )
            for name, asked in offsets.items()
        ),
    )


def _delete(context: Context, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _advance_start(context, topic, index, offset)
    except Refusal as refusal:
        return _result(index, NO_OFFSET, failed(refusal))
    return _result(index, low_watermark, NO_ERROR)


def _advance_start(context: Context, topic: str, index: int, offset: int) -> int:
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
        log.advance_start(start)
    return log.start_offset


def _result(index: int, low_watermark: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=int32(index), low_watermark=int64(low_watermark), error_code=error
    )
