"""OffsetForLeaderEpoch, versions 2-4: the end offset of a leader epoch, so that readers find where logs diverge.

Returns the greatest epoch that is not above the requested one, and the offset at which the
next one began: the end of the log for the current epoch, and for epochs in which nothing was written since.
(-1, -1) for an epoch that is still to come.
Goes to storage/log.py. Refuses: per partition, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
"""

from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from penstock.handlers.support.cluster_view import find_partition
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, int64
from penstock.model.acl import Operation
from penstock.model.errors import Refusal, TopicAuthorizationFailed


async def handle(context: Context, request: Request) -> OffsetForLeaderEpochResponse:
    body: OffsetForLeaderEpochRequest = request.body
    sees_all = request.rights is None or request.may_on_cluster(Operation.CLUSTER_ACTION, is_asked=False)
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _answer(context, topic.topic, partition) if is_visible else _denied(partition)
                    for partition in topic.partitions
                ),
            )
            for topic in body.topics
            for is_visible in (sees_all or request.may_on_topic(Operation.DESCRIBE, topic.topic),)
        ),
    )


def _denied(requested: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(error_code=failed(TopicAuthorizationFailed()), partition=requested.partition)


def _answer(context: Context, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = find_partition(context, topic, requested.partition)
        partition.check_epoch(requested.current_leader_epoch)
        if requested.leader_epoch == partition.leader_epoch:
            # Also if nothing has been written in this epoch, which the log does not record.
            epoch, end_offset = int(requested.leader_epoch), partition.log.end_offset
        elif 0 <= requested.leader_epoch < partition.leader_epoch:
            epoch, end_offset = partition.log.epoch_end(requested.leader_epoch)
            if epoch < 0:
                # Nothing was written since that epoch began. "Unknown" would make clients reset their position.
                epoch, end_offset = int(requested.leader_epoch), partition.log.end_offset
        else:
            epoch, end_offset = -1, -1
    except Refusal as refusal:
        return EpochEndOffset(error_code=failed(refusal), partition=requested.partition)
    return EpochEndOffset(
        error_code=NO_ERROR, partition=requested.partition, leader_epoch=int32(epoch), end_offset=int64(end_offset)
    )
