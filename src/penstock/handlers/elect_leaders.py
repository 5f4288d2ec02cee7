"""ElectLeaders, versions 0-2: preferred leader elections, and from v1 on unclean ones.

Null means all partitions; those that need no election are then omitted. An unclean election may lose
records, and is counted. Goes to controller/elections.py. Refuses: NOT_CONTROLLER, INVALID_REQUEST,
REQUEST_TIMED_OUT; per partition ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Mapping, Sequence

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

from penstock.controller.elections import Elected, decide_elections
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.deadline import within
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, topic_name
from penstock.model.errors import ElectionNotNeeded, Refusal
from penstock.model.ids import TopicName


async def handle(context: Context, request: Request) -> ElectLeadersResponse:
    body: ElectLeadersRequest = request.body
    requested = _requested(body)
    try:
        results = await within(
            context.clock,
            body.timeout,
            context.controller.run(
                lambda image: decide_elections(image, requested, body.election_type, context.monitor.rules)
            ),
        )
    except Refusal as refusal:
        return ElectLeadersResponse(throttle_time=NO_THROTTLE, error_code=failed(refusal), replica_election_results=())
    topics: dict[TopicName, list[PartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(_result(result))
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=topic_name(name), partition_result=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _requested(body: ElectLeadersRequest) -> Mapping[TopicName, Sequence[int]] | None:
    if body.topic_partitions is None:
        return None
    requested: dict[TopicName, list[int]] = {}
    for topic in body.topic_partitions:
        requested.setdefault(TopicName(topic.topic), []).extend(topic.partitions)
    return requested


def _result(result: Elected) -> PartitionResult:
    refusal = result.refusal
    if refusal is None:
        return PartitionResult(partition_id=int32(result.partition), error_code=NO_ERROR, error_message=None)
    # Tools recognize this error by its code, and print any message as a failure.
    message = None if isinstance(refusal, ElectionNotNeeded) else refusal.message
    return PartitionResult(partition_id=int32(result.partition), error_code=failed(refusal), error_message=message)
