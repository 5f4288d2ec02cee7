"""AssignReplicasToDirs, version 0: a broker reports which directories hold its replicas.

The directory LOST means that a replica's data is gone or damaged: it leaves the ISR and cannot lead until it has been
refilled and assigned to a directory that is online. Goes to controller/directories.py on the active controller.
Refuses: NOT_CONTROLLER, STALE_BROKER_EPOCH; per partition those of that file.
"""

from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
from kio.schema.assign_replicas_to_dirs.v0.response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

from penstock.controller.directories import ReplicaDirectory, decide_assignment
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, present
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> AssignReplicasToDirsResponse:
    body: AssignReplicasToDirsRequest = request.body
    replicas = [
        ReplicaDirectory(present(topic.topic_id), partition.partition_index, present(directory.id_))
        for directory in body.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    try:
        outcomes = await context.controller.run(
            lambda image: decide_assignment(
                image, NodeId(body.broker_id), body.broker_epoch, replicas, context.monitor.rules
            )
        )
    except Refusal as refusal:
        return AssignReplicasToDirsResponse(throttle_time=NO_THROTTLE, error_code=failed(refusal), directories=())
    left = iter(outcomes)
    return AssignReplicasToDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        directories=tuple(
            DirectoryData(
                id_=directory.id_,
                topics=tuple(
                    TopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            _result(partition.partition_index, next(left)) for partition in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in body.directories
        ),
    )


def _result(index: int, refusal: Refusal | None) -> PartitionData:
    return PartitionData(partition_index=int32(index), error_code=NO_ERROR if refusal is None else failed(refusal))
