"""DescribeTopicPartitions, version 0: topics by name, in pages of partitions.

Topics are sorted; an empty list means all topics. The response has at most as many partitions as the
client and max.request.partition.size.limit allow, then a cursor to the start of the next page. The
eligible-leader arrays are empty, never null: null is legal, but Java's admin client fails on it.
Reads the image. Refuses: per topic, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION; all of
them, INVALID_REQUEST for a cursor that is not among the topics or has a negative partition.
"""

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.support.cluster_view import is_reachable, offline_replicas
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, node, nodes, topic_name
from penstock.metadata.image import Image, PartitionImage
from penstock.model.acl import Operation, ResourceType
from penstock.model.ids import NO_NODE, TopicName
from penstock.model.topic import is_internal, name_problem
from penstock.scheduling.scheduler import Pace


async def handle(context: Context, request: Request) -> DescribeTopicPartitionsResponse:
    body: DescribeTopicPartitionsRequest = request.body
    image = context.quorum.image
    all_topics = not body.topics
    names = (
        sorted(image.topics)
        if all_topics
        else sorted({TopicName(topic.name) async for topic in request.pace.each(body.topics)})
    )
    denied: list[TopicName] = []
    if request.rights is not None:
        visible = [
            name
            async for name in request.pace.each(names)
            if request.may_on_topic(Operation.DESCRIBE, name, is_asked=not all_topics)
        ]
    else:
        visible = names
    first = 0
    if body.cursor is not None:
        from_name = TopicName(body.cursor.topic_name)
        if body.cursor.partition_index < 0 or not (all_topics or from_name in names):
            return await _refused(body, request.pace)
        names = [name for name in names if name >= from_name]
        visible = [name for name in visible if name >= from_name]
        if visible and visible[0] == from_name:
            first = body.cursor.partition_index
    if not all_topics:
        denied = sorted(set(names) - set(visible))
    most = context.settings.integer("max.request.partition.size.limit")
    room = max(min(most, body.response_partition_limit), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    cursor: Cursor | None = None
    async for name in request.pace.each(visible):
        if room == 0:
            cursor = Cursor(topic_name=topic_name(name), partition_index=int32(0))
            break
        described, next_index = _topic(image, request, name, first=first, room=room)
        topics.append(described)
        room -= len(described.partitions)
        first = 0
        if next_index is not None:
            cursor = Cursor(topic_name=topic_name(name), partition_index=int32(next_index))
            break
    topics += [_denied(name) for name in denied]
    return DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=cursor)


def _denied(name: TopicName) -> DescribeTopicPartitionsResponseTopic:
    """Return the result of a topic that the client may not see, whether it exists or not."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.topic_authorization_failed, name=topic_name(name), topic_id=None, partitions=()
    )


def _topic(
    image: Image, request: Request, name: TopicName, *, first: int, room: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Return as many partitions of the topic as fit, and the index of the first that was omitted."""
    topic = image.topics.get(name)
    if topic is None:
        error = (
            ErrorCode.unknown_topic_or_partition if name_problem(name) is None else ErrorCode.invalid_topic_exception
        )
    else:
        error = NO_ERROR
    partitions = () if topic is None else topic.partitions
    end = min(len(partitions), first + room)
    described = DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=topic_name(name),
        topic_id=None if topic is None else topic.id,
        is_internal=is_internal(name),
        partitions=tuple(_partition(image, request.listener, index, partitions[index]) for index in range(first, end)),
        topic_authorized_operations=request.operations(ResourceType.TOPIC, name),
    )
    return described, end if end < len(partitions) else None


def _partition(
    image: Image, listener: str, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    led = is_reachable(image, partition.leader, listener)
    return DescribeTopicPartitionsResponsePartition(
        error_code=NO_ERROR,
        partition_index=int32(index),
        leader_id=node(partition.leader if led else NO_NODE),
        leader_epoch=int32(partition.leader_epoch),
        replica_nodes=nodes(partition.replicas),
        isr_nodes=nodes(partition.isr),
        eligible_leader_replicas=nodes(partition.eligible_leader_replicas),
        last_known_elr=nodes(partition.last_known_elr),
        offline_replicas=nodes(offline_replicas(image, partition, listener)),
    )


async def _refused(body: DescribeTopicPartitionsRequest, pace: Pace) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.invalid_request, name=topic.name, topic_id=None, partitions=()
                )
                async for topic in pace.each(body.topics)
            ]
        ),
    )
