"""Requests about brokers, replicas, leaders and the metadata quorum."""

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

from penstock.actions.cluster.log_dirs import TopicPartition, describe_log_dirs
from penstock.actions.cluster_client import ClusterClient, raise_for_error
from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import ActionError
from penstock.controller.replica_plan import Partition, ReplicaMove
from penstock.model.topic import CLUSTER_METADATA
from penstock.wire.api import ApiKey

PREFERRED: Final = 0


class BrokerState(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class QuorumReplica(NamedTuple):
    """A voter or an observer of the metadata quorum."""

    node_id: int
    is_voter: bool
    end_offset: int
    behind: int
    last_fetch_ms: int


class QuorumState(NamedTuple):
    leader: int
    epoch: int
    high_watermark: int
    replicas: list[QuorumReplica]


def describe_brokers(cluster: ClusterClient) -> list[BrokerState]:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(1), include_fenced_brokers=True
    )
    answer = cluster.send_any(ApiKey.DESCRIBE_CLUSTER, request)
    raise_for_error(answer.error_code, about="brokers")
    found = [
        BrokerState(int(each.broker_id), each.host, int(each.port), each.rack, each.is_fenced)
        for each in answer.brokers
    ]
    return sorted(found)


def list_partitions(cluster: ClusterClient) -> list[Partition]:
    return [
        Partition(str(topic.name), int(each.partition_index), tuple(int(node) for node in each.replica_nodes))
        for topic in cluster.topics
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]


def describe_quorum(cluster: ClusterClient) -> QuorumState:
    topic = TopicData(topic_name=cast(Any, CLUSTER_METADATA), partitions=(PartitionData(partition_index=i32(0)),))
    answer = cluster.send_any(ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=(topic,)))
    raise_for_error(answer.error_code, about="metadata quorum")
    state = answer.topics[0].partitions[0]
    raise_for_error(state.error_code, about="metadata quorum")
    ends = {int(each.replica_id): int(each.log_end_offset) for each in (*state.current_voters, *state.observers)}
    most = max(ends.values(), default=0)
    replicas = [
        QuorumReplica(
            int(each.replica_id),
            is_voter,
            ends[int(each.replica_id)],
            most - ends[int(each.replica_id)],
            int(each.last_fetch_timestamp),
        )
        for is_voter, group in ((True, state.current_voters), (False, state.observers))
        for each in group
    ]
    return QuorumState(int(state.leader_id), int(state.leader_epoch), int(state.high_watermark), replicas)


def reassign(cluster: ClusterClient, moves: Sequence[ReplicaMove]) -> None:
    """Start a reassignment; the controller completes it. If one partition is rejected, raise its error."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for move in moves:
        target = ReassignablePartition(partition_index=i32(move.partition), replicas=cast(Any, move.after))
        by_topic.setdefault(move.topic, []).append(target)
    request = AlterPartitionReassignmentsRequest(
        timeout=_timeout(),
        allow_replication_factor_change=True,
        topics=tuple(
            ReassignableTopic(name=cast(Any, name), partitions=tuple(each)) for name, each in by_topic.items()
        ),
    )
    answer = cluster.send_any(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
    raise_for_error(answer.error_code, about=answer.error_message or "reassignment")
    problems = [
        f"{topic.name}-{each.partition_index}: {each.error_message or each.error_code.name.replace('_', ' ')}"
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code.value
    ]
    if problems:
        raise ActionError("; ".join(problems))


def list_reassignments(cluster: ClusterClient) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions that are being reassigned, with the replicas that are being added."""
    request = ListPartitionReassignmentsRequest(timeout=_timeout(), topics=None)
    answer = cluster.send_any(ApiKey.LIST_PARTITION_REASSIGNMENTS, request)
    raise_for_error(answer.error_code, about="reassignments")
    return {
        (str(topic.name), int(each.partition_index)): tuple(int(node) for node in each.adding_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


def elect_preferred_leaders(cluster: ClusterClient) -> list[TopicPartition]:
    """Elect the preferred leader of every partition; return the partitions whose leader changed."""
    request = ElectLeadersRequest(election_type=i8(PREFERRED), topic_partitions=None, timeout=_timeout())
    answer = cluster.send_any(ApiKey.ELECT_LEADERS, request)
    raise_for_error(answer.error_code, about="leader election")
    return [
        (str(topic.topic), int(each.partition_id))
        for topic in answer.replica_election_results
        for each in topic.partition_result
        if not each.error_code.value
    ]


def unregister_broker(cluster: ClusterClient, node: int) -> None:
    answer = cluster.send_any(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=cast(Any, node)))
    raise_for_error(answer.error_code, about=answer.error_message or f"node {node}")


def replica_sizes(cluster: ClusterClient, nodes: Iterable[int]) -> dict[tuple[str, int, int], int]:
    """Return bytes by topic, partition and node. Nodes that do not answer are left out."""
    return {(*partition, node): size for node, _, partition, size, _ in describe_log_dirs(cluster, nodes)}


def _timeout() -> Any:
    return timedelta(seconds=REQUEST_TIMEOUT_S)
