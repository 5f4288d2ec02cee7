"""CreatePartitions, versions 0-3: adds partitions to topics, never removes any.

The count is the new total. Without assignments (null) the controller places the new partitions.
A topic that occurs twice in the request is refused once. The response lists every topic of the request, and
the logs of the new partitions exist when it is sent. Goes to controller/topics.py.
Refuses: per topic, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION, from v3 on THROTTLING_QUOTA_EXCEEDED; the whole
request, REQUEST_TIMED_OUT.
"""

from collections import Counter

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.errors import ErrorCode

from penstock.controller.topics import MorePartitions, deciding_add_partitions
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.deadline import within
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, topic_name
from penstock.handlers.support.throttled import STRICT_CREATE_PARTITIONS_FROM, Mutations
from penstock.model.acl import Operation
from penstock.model.errors import Refusal, ThrottlingQuotaExceeded, UnknownTopicOrPartition
from penstock.model.ids import NodeId, TopicName


async def handle(context: Context, request: Request) -> CreatePartitionsResponse:
    body: CreatePartitionsRequest = request.body
    counts = Counter(topic.name for topic in body.topics)
    denied = [name for name, count in counts.items() if count == 1 and not request.may_on_topic(Operation.ALTER, name)]
    topics = [_command(topic) for topic in body.topics if counts[topic.name] == 1 and topic.name not in denied]
    random = context.entropy.stream("placement")
    charge = Mutations(context, request, strict_from=STRICT_CREATE_PARTITIONS_FROM).charge
    try:
        outcomes = await within(
            context.clock,
            body.timeout,
            context.controller.run(
                lambda image: deciding_add_partitions(
                    image, topics, random=random, validate_only=body.validate_only, charge=charge
                )
            ),
        )
        await context.replicas.settled()
    except Refusal as refusal:
        results = [_result(name, failed(refusal), None) for name in counts]
        return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))
    results = [
        _result(name, ErrorCode.invalid_request, "Duplicate topic name.") for name, count in counts.items() if count > 1
    ]
    results.extend(_result(name, ErrorCode.topic_authorization_failed, None) for name in denied)
    results.extend(_outcome(topic, refusal) for topic, refusal in zip(topics, outcomes, strict=True))
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _command(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        name=TopicName(topic.name),
        count=topic.count,
        assignments=None if assignments is None else tuple(tuple(map(NodeId, each.broker_ids)) for each in assignments),
    )


def _outcome(topic: MorePartitions, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    if refusal is None:
        return _result(topic.name, NO_ERROR, None)
    # Kafka sends no message here, and its tools print a message instead of the error's text.
    has_nothing_to_add = isinstance(refusal, UnknownTopicOrPartition | ThrottlingQuotaExceeded)
    message = None if has_nothing_to_add else refusal.message
    return _result(topic.name, failed(refusal), message)


def _result(name: str, error: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=topic_name(name), error_code=error, error_message=message)
