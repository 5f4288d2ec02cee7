"""AlterPartitionReassignments, versions 0-1: moves partitions to other brokers, or cancels that (null replicas).

The response means that the reassignment has begun; ListPartitionReassignments shows its progress. From v1 on a request
can forbid a change of the replication factor. Goes to controller/reassignments.py. Refuses: NOT_CONTROLLER,
REQUEST_TIMED_OUT; per partition INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS,
UNKNOWN_TOPIC_OR_PARTITION.
"""

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from penstock.controller.reassignments import Reassignment, decide_reassignments
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.deadline import within
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, topic_name
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, TopicName


async def handle(context: Context, request: Request) -> AlterPartitionReassignmentsResponse:
    body: AlterPartitionReassignmentsRequest = request.body
    allowed = body.allow_replication_factor_change
    wishes = [
        Reassignment(
            TopicName(topic.name),
            partition.partition_index,
            None if partition.replicas is None else tuple(map(NodeId, partition.replicas)),
        )
        for topic in body.topics
        for partition in topic.partitions
    ]
    try:
        outcomes = await within(
            context.clock,
            body.timeout,
            context.controller.run(
                lambda image: decide_reassignments(
                    image, wishes, rules=context.monitor.rules, allow_factor_change=allowed
                )
            ),
        )
    except Refusal as refusal:
        return AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE,
            allow_replication_factor_change=allowed,
            error_code=failed(refusal),
            error_message=refusal.message,
            responses=(),
        )
    topics: dict[TopicName, list[ReassignablePartitionResponse]] = {}
    for wish, outcome in zip(wishes, outcomes, strict=True):
        topics.setdefault(wish.topic, []).append(_result(wish.partition, outcome))
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=allowed,
        error_code=NO_ERROR,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(name=topic_name(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _result(index: int, refusal: Refusal | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=int32(index),
        error_code=NO_ERROR if refusal is None else failed(refusal),
        error_message=None if refusal is None else refusal.message,
    )
