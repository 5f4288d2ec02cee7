"""ListPartitionReassignments, version 0: the partitions that are being reassigned.

Null means every topic. Partitions that are not being reassigned or do not exist are omitted.
Reads the image. Refuses nothing.
"""

from collections.abc import Iterable

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, nodes, topic_name
from penstock.metadata.image import TopicImage
from penstock.model.ids import TopicName


async def handle(context: Context, request: Request) -> ListPartitionReassignmentsResponse:
    body: ListPartitionReassignmentsRequest = request.body
    image = context.quorum.image
    found: list[OngoingTopicReassignment] = []
    if body.topics is None:
        for topic in image.topics.values():
            found.extend(_under_way(topic, range(len(topic.partitions))))
    else:
        for requested in body.topics:
            known = image.topics.get(TopicName(requested.name))
            if known is not None:
                found.extend(_under_way(known, requested.partition_indexes))
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message=None, topics=tuple(found)
    )


def _under_way(topic: TopicImage, indexes: Iterable[int]) -> list[OngoingTopicReassignment]:
    """Return the topic with its partitions that are being reassigned; an empty list if there are none."""
    moving = []
    for index in indexes:
        if not 0 <= index < len(topic.partitions):
            continue
        partition = topic.partitions[index]
        if partition.adding_replicas or partition.removing_replicas:
            moving.append(
                OngoingPartitionReassignment(
                    partition_index=int32(index),
                    replicas=nodes(partition.replicas),
                    adding_replicas=nodes(partition.adding_replicas),
                    removing_replicas=nodes(partition.removing_replicas),
                )
            )
    return [OngoingTopicReassignment(name=topic_name(topic.name), partitions=tuple(moving))] if moving else []
