"""Requests that change where replicas and leaders are, and those that tell how far a change has come."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, cast

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i8, i32

from penstock.actions.cluster_client import TIMEOUT_S, Cluster, ClusterError, check
from penstock.actions.cluster.log_dirs import log_dirs
from penstock.actions.cluster.replica_plan import Move, Partition
from penstock.model.topic import CLUSTER_METADATA
from penstock.wire.api import ApiKey

PREFERRED: Final = 0
# Nothing was to be done for the partition.
ELECTION_NOT_NEEDED: Final = 84


class BrokerState(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class Voter(NamedTuple):
    node_id: int
    is_voter: bool
    end_offset: int
    behind: int
    last_fetch_ms: int


class QuorumState(NamedTuple):
    leader: int
    epoch: int
    high_watermark: int
    members: list[Voter]


def brokers(cluster: Cluster) -> list[BrokerState]:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(1), include_fenced_brokers=True
    )
    answer = cluster.ask_any(ApiKey.DESCRIBE_CLUSTER, request)
    check(answer.error_code, about="the brokers")
    found = [
        BrokerState(int(each.broker_id), each.host, int(each.port), each.rack, each.is_fenced)
        for each in answer.brokers
    ]
    return sorted(found)


def partitions(cluster: Cluster) -> list[Partition]:
    return [
        Partition(str(topic.name), int(each.partition_index), tuple(int(node) for node in each.replica_nodes))
        for topic in cluster.topics
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]


def quorum(cluster: Cluster) -> QuorumState:
    topic = TopicData(topic_name=cast(Any, CLUSTER_METADATA), partitions=(PartitionData(partition_index=i32(0)),))
    answer = cluster.ask_any(ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=(topic,)))
    check(answer.error_code, about="the quorum")
    state = answer.topics[0].partitions[0]
    check(state.error_code, about="the quorum")
    ends = {int(each.replica_id): int(each.log_end_offset) for each in (*state.current_voters, *state.observers)}
    most = max(ends.values(), default=0)
    members = [
        Voter(
            int(each.replica_id),
            is_voter,
            ends[int(each.replica_id)],
            most - ends[int(each.replica_id)],
            int(each.last_fetch_timestamp),
        )
        for is_voter, group in ((True, state.current_voters), (False, state.observers))
        for each in group
    ]
    return QuorumState(int(state.leader_id), int(state.leader_epoch), int(state.high_watermark), members)


def reassign(cluster: Cluster, moves: Sequence[Move]) -> None:
    """Begin to move; the cluster goes on by itself. Refuses all if one cannot be begun."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for move in moves:
        target = ReassignablePartition(partition_index=i32(move.number), replicas=cast(Any, move.after))
        by_topic.setdefault(move.topic, []).append(target)
    request = AlterPartitionReassignmentsRequest(
        timeout=_timeout(),
        allow_replication_factor_change=True,
        topics=tuple(
            ReassignableTopic(name=cast(Any, name), partitions=tuple(each)) for name, each in by_topic.items()
        ),
    )
    answer = cluster.ask_any(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    check(answer.error_code, about=answer.error_message or "the move")
    problems = [
        f"{topic.name}-{each.partition_index}: {each.error_message or each.error_code.name.replace('_', ' ')}"
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code.value
    ]
    if problems:
        raise ClusterError("; ".join(problems))


def under_way(cluster: Cluster) -> dict[tuple[str, int], tuple[int, ...]]:
    """The partitions that are being moved, with the replicas that are being added."""
    request = ListPartitionReassignmentsRequest(timeout=_timeout(), topics=None)
    answer = cluster.ask_any(ApiKey.LIST_PARTITION_REASSIGNMENTS, request)
    check(answer.error_code, about="the moves under way")
    return {
        (str(topic.name), int(each.partition_index)): tuple(int(node) for node in each.adding_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


def elect_preferred(cluster: Cluster) -> list[tuple[str, int]]:
    """Give every partition its preferred leader back; returns those that changed hands."""
    request = ElectLeadersRequest(election_type=i8(PREFERRED), topic_partitions=None, timeout=_timeout())
    answer = cluster.ask_any(ApiKey.ELECT_LEADERS, request)
    check(answer.error_code, about="the election")
    return [
        (str(topic.topic), int(each.partition_id))
        for topic in answer.replica_election_results
        for each in topic.partition_result
        if not each.error_code.value
    ]


def unregister(cluster: Cluster, node: int) -> None:
    answer = cluster.ask_any(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=cast(Any, node)))
    check(answer.error_code, about=answer.error_message or f"node {node}")


def sizes(cluster: Cluster, nodes: Iterable[int]) -> dict[tuple[str, int, int], int]:
    """Bytes by topic, partition and node, for progress; nodes that do not answer are left out."""
    return {(*place, node): size for node, _, place, size, _ in log_dirs(cluster, nodes)}


def _timeout() -> Any:
    return timedelta(seconds=TIMEOUT_S)
