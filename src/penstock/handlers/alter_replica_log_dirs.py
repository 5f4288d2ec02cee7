"""AlterReplicaLogDirs, versions 1-2: moves replicas to another log directory of the node.

A node has one data folder, so a replica is already in the requested folder, or the node does not have that folder.
Goes to replication/replicas.py. Refuses: per partition, LOG_DIR_NOT_FOUND for any other folder,
KAFKA_STORAGE_ERROR for a failed one, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION.
"""

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.support.cluster_view import find_partition
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, topic_name
from penstock.model.errors import Refusal


async def handle(context: Context, request: Request) -> AlterReplicaLogDirsResponse:
    body: AlterReplicaLogDirsRequest = request.body
    outcomes: dict[str, dict[int, ErrorCode]] = {}
    async for folder in request.pace.each(body.dirs):
        async for topic in request.pace.each(folder.topics):
            async for index in request.pace.each(topic.partitions):
                outcomes.setdefault(topic.name, {})[index] = _outcome(context, folder.path, topic.name, index)
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            [
                AlterReplicaLogDirTopicResult(
                    topic_name=topic_name(name),
                    partitions=tuple(
                        [
                            AlterReplicaLogDirPartitionResult(partition_index=int32(index), error_code=code)
                            async for index, code in request.pace.each(codes.items())
                        ]
                    ),
                )
                for name, codes in outcomes.items()
            ]
        ),
    )


def _outcome(context: Context, path: str, topic: str, index: int) -> ErrorCode:
    directory = context.store.directory
    if path.rstrip("/") != directory.path.rstrip("/"):
        return ErrorCode.log_dir_not_found
    if directory.failure is not None:
        return ErrorCode.kafka_storage_error
    try:
        find_partition(context, topic, index)
    except Refusal as refusal:
        return failed(refusal)
    return NO_ERROR
