"""DescribeProducers, version 0: the producer state of partitions.

Shows which transactions are open, and their first offset. Every replica answers: an administrator can query a
broker by its id to find hanging transactions. Goes to replication/replicas.py.
Refuses, per partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.types import ProducerId

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, int64
from penstock.model.acl import Operation
from penstock.model.errors import NotLeaderOrFollower, Refusal, TopicAuthorizationFailed, UnknownTopicOrPartition
from penstock.model.ids import TopicName


async def handle(context: Context, request: Request) -> DescribeProducersResponse:
    body: DescribeProducersRequest = request.body
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _describe(context, topic.name, each, is_denied=is_denied) for each in topic.partition_indexes
                ),
            )
            for topic in body.topics
            for is_denied in (not request.may_on_topic(Operation.READ, topic.name),)
        ),
    )


def _describe(context: Context, topic: str, index: int, *, is_denied: bool) -> PartitionResponse:
    try:
        if is_denied:
            raise TopicAuthorizationFailed
        producers = _producers(context, topic, index)
    except Refusal as refusal:
        return PartitionResponse(
            partition_index=int32(index),
            error_code=failed(refusal),
            error_message=refusal.message if is_denied else None,
            active_producers=(),
        )
    return PartitionResponse(partition_index=int32(index), error_code=NO_ERROR, active_producers=producers)


def _producers(context: Context, topic: str, index: int) -> tuple[ProducerState, ...]:
    partition = context.replicas.find(TopicName(topic), index)
    if partition is None:
        known = context.quorum.image.topics.get(TopicName(topic))
        is_elsewhere = known is not None and 0 <= index < len(known.partitions)
        raise NotLeaderOrFollower if is_elsewhere else UnknownTopicOrPartition
    return tuple(
        ProducerState(
            producer_id=ProducerId(each.producer_id),
            producer_epoch=int32(each.epoch),
            last_sequence=int32(each.last_sequence),
            last_timestamp=int64(each.last_timestamp),
            coordinator_epoch=int32(each.coordinator_epoch),
            current_txn_start_offset=int64(each.txn_first_offset),
        )
        for each in partition.log.producers()
    )
