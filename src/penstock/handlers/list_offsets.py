"""ListOffsets, versions 1-11: the start and end of a partition, and the offset of a timestamp.

Negative timestamps are special: -1 latest, -2 earliest, -3 the record with the greatest
timestamp (v7), -4 earliest on local disk (v8), -5 last in tiered storage (v9), -6 first that is
not tiered yet (v11). There is no tiered storage, so -4 is the earliest and -5 and -6 are
-1. Another timestamp finds the first record that is not older; (-1, -1) if there is none.
A consumer sees offsets up to the high watermark, with read_committed up to the last stable offset;
a replica sees the end of the log. While a new leader does not know the high watermark, v5 gets
OFFSET_NOT_AVAILABLE, older versions LEADER_NOT_AVAILABLE. Goes to replication/partition.py and storage/log.py.
"""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from penstock.handlers.support.cluster_view import find_partition
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, int64, topic_name
from penstock.handlers.support.visibility import wait_until_visible
from penstock.model.acl import Operation
from penstock.model.errors import NotLeaderOrFollower, OffsetNotAvailable, Refusal
from penstock.scheduling.scheduler import Pace
from penstock.wire.unpacking import DECOMPRESSED_SIZE_MAX

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_SINCE: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
KNOWS_OFFSET_NOT_AVAILABLE_FROM: Final = 5
CONSUMER: Final = -1
DEBUGGER: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


NOTHING: Final = Found(-1, -1, -1)


async def handle(context: Context, request: Request) -> ListOffsetsResponse:
    body: ListOffsetsRequest = request.body
    requested: Counter[tuple[str, int]] = Counter()
    async for topic in request.pace.each(body.topics):
        async for partition in request.pace.each(topic.partitions):
            requested[topic.name, partition.partition_index] += 1
    denied = {topic.name for topic in body.topics if not request.may_on_topic(Operation.DESCRIBE, topic.name)}
    if body.replica_id == CONSUMER:
        visible = [each for each in requested if each[0] not in denied] if denied else requested
        await wait_until_visible(context, visible, request.pace)
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    async for topic in request.pace.each(body.topics):
        # If a topic occurs twice in the request, the response has it once, as in Kafka.
        answers = topics.setdefault(topic.name, {})
        if topic.name in denied:
            for partition in topic.partitions:
                answers[partition.partition_index] = _reply(partition, ErrorCode.topic_authorization_failed, NOTHING)
            continue
        async for partition in request.pace.each(topic.partitions):
            twice = requested[topic.name, partition.partition_index] > 1
            answers[partition.partition_index] = await _answer(context, request, topic.name, partition, twice=twice)
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                ListOffsetsTopicResponse(name=topic_name(name), partitions=tuple(answers.values()))
                async for name, answers in request.pace.each(topics.items())
            ]
        ),
    )


async def _answer(
    context: Context, request: Request, topic: str, requested: ListOffsetsPartition, *, twice: bool
) -> ListOffsetsPartitionResponse:
    version = request.header.version
    body: ListOffsetsRequest = request.body
    if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _reply(requested, ErrorCode.unknown_server_error, NOTHING)
    if twice:
        return _reply(requested, ErrorCode.invalid_request, NOTHING)
    if requested.timestamp < 0 and version < _SINCE.get(requested.timestamp, version + 1):
        return _reply(requested, ErrorCode.unsupported_version, NOTHING)
    try:
        partition = find_partition(context, topic, requested.partition_index)
        if body.replica_id != DEBUGGER:
            partition.check_epoch(requested.current_leader_epoch)
        found = await _find(partition, requested.timestamp, body, request.pace)
    except OffsetNotAvailable as refusal:
        late = version < KNOWS_OFFSET_NOT_AVAILABLE_FROM
        return _reply(requested, ErrorCode.leader_not_available if late else failed(refusal), NOTHING)
    except Refusal as refusal:
        return _reply(requested, failed(refusal), NOTHING)
    return _reply(requested, NO_ERROR, found)


def _visible_end(partition: "Partition", body: ListOffsetsRequest) -> int:
    if body.replica_id != CONSUMER:
        return partition.log.end_offset
    return partition.end_for_consumers(committed_only=body.isolation_level == READ_COMMITTED)


async def _find(partition: "Partition", timestamp: int, body: ListOffsetsRequest, pace: Pace) -> Found:
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        empty = log.start_offset == log.end_offset
        return Found(-1, log.start_offset, partition.leader_epoch if empty else log.epochs.epoch_at(log.start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == LATEST:
        return Found(-1, _visible_end(partition, body), partition.leader_epoch)
    start = log.max_timestamp if timestamp == MAX_TIMESTAMP else partial(log.lookup_time, timestamp)
    epoch = partition.leader_epoch
    found = await pace.finish(start, memory=DECOMPRESSED_SIZE_MAX)
    if partition.leader_epoch != epoch:
        # The log may have been truncated while it was read.
        raise NotLeaderOrFollower
    if found is None or not 0 <= found[1] < _visible_end(partition, body):
        return NOTHING
    return Found(*found)


def _reply(requested: ListOffsetsPartition, error: ErrorCode, found: Found) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        error_code=error,
        timestamp=int64(found.timestamp),
        offset=int64(found.offset),
        leader_epoch=int32(found.leader_epoch),
    )
