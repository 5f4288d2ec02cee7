"""DescribeLogDirs, versions 1-5: the replicas in the data folder, and the size of its volume.

Null topics mean every partition; partitions of a list that are not on this node are omitted. The
lag is how far the log end offset is behind the high watermark. v4 adds the size of the volume;
v5 whether the folder is cordoned, that is, gets no new replicas, as while it is read-only.
Goes to replication/replicas.py and the disk port. Refuses: KAFKA_STORAGE_ERROR for a failed folder.
"""

from typing import TYPE_CHECKING

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, int64, topic_name
from penstock.scheduling.scheduler import Pace

if TYPE_CHECKING:
    from penstock.replication.partition import Partition


async def handle(context: Context, request: Request) -> DescribeLogDirsResponse:
    body: DescribeLogDirsRequest = request.body
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=NO_ERROR, results=(await _describe(context, body, request.pace),)
    )


async def _describe(context: Context, body: DescribeLogDirsRequest, pace: Pace) -> DescribeLogDirsResult:
    directory = context.store.directory
    if directory.failure is not None:
        return _failed(directory.path)
    try:
        total, usable = context.disk.space(directory.path)
    except OSError:
        return _failed(directory.path)
    return DescribeLogDirsResult(
        error_code=NO_ERROR,
        log_dir=directory.path,
        topics=await _topics(context, await _wanted(body, pace), pace),
        total_bytes=int64(total),
        usable_bytes=int64(usable),
        is_cordoned=directory.refusal is not None,
    )


async def _wanted(body: DescribeLogDirsRequest, pace: Pace) -> set[tuple[str, int]] | None:
    if body.topics is None:
        return None
    return {(str(topic.topic), index) async for topic in pace.each(body.topics) for index in topic.partitions}


async def _topics(
    context: Context, wanted: set[tuple[str, int]] | None, pace: Pace
) -> tuple[DescribeLogDirsTopic, ...]:
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    async for partition in pace.each(list(context.replicas.all())):
        if wanted is None or (partition.topic, partition.index) in wanted:
            found.setdefault(partition.topic, []).append(_partition(partition))
    return tuple(
        DescribeLogDirsTopic(name=topic_name(name), partitions=tuple(partitions)) for name, partitions in found.items()
    )


def _partition(partition: "Partition") -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=int32(partition.index),
        partition_size=int64(partition.log.size),
        offset_lag=int64(max(partition.high_watermark - partition.log.end_offset, 0)),
        is_future_key=False,
    )


def _failed(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=path, topics=())
