"""Moving replicas and leaders: plans, their execution and their progress."""

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from penstock.actions.cluster import requests
from penstock.actions.cluster_client import ClusterClient, open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError, unknown_node, unknown_partition, unknown_topic
from penstock.controller.replica_plan import Location, ReplicaMove, TooFewNodes, drain, rotated, shared_hosts, spread

STOP_SEEN_S_MAX: Final = 2.0
STOP_SEEN_RETRY_S: Final = 0.1


class Progress(NamedTuple):
    """How much of a reassignment is done."""

    partitions_done: int
    partitions_total: int
    bytes_done: int
    bytes_total: int

    @property
    def is_complete(self) -> bool:
        return self.partitions_done == self.partitions_total


def plan_topic(connection: Connection, topic: str, index: int | None, targets: tuple[int, ...]) -> list[ReplicaMove]:
    """Plan the move of one partition, or of all partitions of a topic, to the given nodes.

    Each partition of a whole topic begins with another node, so that the nodes lead about as many of them.
    """
    with open_cluster(connection) as cluster:
        partitions = [each for each in requests.list_partitions(cluster) if each.topic == topic]
    if not partitions:
        raise unknown_topic(topic)
    chosen = [each for each in partitions if index in (None, each.partition)]
    if not chosen:
        assert index is not None, "all partitions were chosen"
        raise unknown_partition(topic, index, len(partitions))
    moves = [
        ReplicaMove(topic, each.partition, each.replicas, targets if index is not None else rotated(targets, position))
        for position, each in enumerate(sorted(chosen, key=lambda each: each.partition))
    ]
    return [move for move in moves if move.before != move.after]


def find_shared_hosts(connection: Connection, nodes: Sequence[int]) -> list[str]:
    """Return the hosts that several of the nodes are on, although there are hosts with none of them."""
    with open_cluster(connection) as cluster:
        return shared_hosts(nodes, _locations(requests.describe_brokers(cluster)))


def plan_drain(connection: Connection, nodes: Collection[int]) -> list[ReplicaMove]:
    """Plan the move of every replica off the nodes."""
    with open_cluster(connection) as cluster:
        _check_settled(cluster)
        locations = _locations(requests.describe_brokers(cluster))
        partitions = requests.list_partitions(cluster)
    for node in nodes:
        if node not in locations:
            raise unknown_node(node)
    try:
        return drain(partitions, nodes, locations)
    except TooFewNodes as problem:
        raise ActionError(str(problem)) from None


def plan_even_spread(connection: Connection) -> list[ReplicaMove]:
    """Plan moves after which every node holds about the same number of replicas."""
    with open_cluster(connection) as cluster:
        _check_settled(cluster)
        locations = _locations(requests.describe_brokers(cluster))
        return spread(requests.list_partitions(cluster), locations)


def _check_settled(cluster: ClusterClient) -> None:
    """Raise ActionError during a reassignment: until it ends, removed replicas count as replicas, and would be kept."""
    moving = len(requests.list_reassignments(cluster))
    if moving:
        raise ActionError(
            f"Cannot plan moves: {moving} partitions are being reassigned. Wait until the reassignment is complete."
        )


def _locations(brokers: Iterable[requests.BrokerState]) -> dict[int, Location]:
    return {
        each.node_id: Location(each.rack, each.host.lower() or None, may_receive=not each.is_fenced) for each in brokers
    }


def start_reassignment(connection: Connection, moves: Sequence[ReplicaMove]) -> None:
    with open_cluster(connection) as cluster:
        requests.reassign(cluster, moves)


def reassignment_progress(connection: Connection, moves: Sequence[ReplicaMove]) -> Progress:
    """Return how much of the moves is done."""
    partitions = {(move.topic, move.partition) for move in moves}
    with ClusterClient(connection) as cluster:
        left = partitions & set(requests.list_reassignments(cluster))
        return Progress(len(partitions) - len(left), len(partitions), *_bytes_copied(cluster, moves))


def elect_preferred_leaders(connection: Connection) -> int:
    """Elect preferred leaders; return how many partitions changed their leader."""
    with open_cluster(connection) as cluster:
        return len(requests.elect_preferred_leaders(cluster))


def unregister_node(connection: Connection, node: int) -> None:
    """Remove a node that `check_removable` accepts from the cluster."""
    with open_cluster(connection) as cluster:
        requests.unregister_broker(cluster, node)


def check_removable(connection: Connection, node: int) -> None:
    """Raise ActionError unless a node is stopped and holds no replica."""
    with open_cluster(connection) as cluster:
        is_running = _is_running(cluster, node)
        held = sum(node in each.replicas for each in requests.list_partitions(cluster))
        if held:
            raise ActionError(f"Cannot remove node {node}: it holds {held} replicas. Drain it first.")
        deadline = time.monotonic() + STOP_SEEN_S_MAX
        while is_running:
            if time.monotonic() > deadline:
                raise ActionError(f"Cannot remove node {node}: it is running. Stop it first.")
            # The broker that answers may learn a moment later that a node has just stopped.
            time.sleep(STOP_SEEN_RETRY_S)
            is_running = _is_running(cluster, node)


def _is_running(cluster: ClusterClient, node: int) -> bool:
    for broker in requests.describe_brokers(cluster):
        if broker.node_id == node:
            return not broker.is_fenced
    raise unknown_node(node)


def _bytes_copied(cluster: ClusterClient, moves: Sequence[ReplicaMove]) -> tuple[int, int]:
    """Return how many bytes the new replicas hold, and how many they will hold."""
    sizes = requests.replica_sizes(cluster, cluster.brokers)
    done = total = 0
    for move in moves:
        size = max((sizes.get((move.topic, move.partition, node), 0) for node in move.before), default=0)
        for node in move.added:
            total += size
            done += min(size, sizes.get((move.topic, move.partition, node), 0))
    return done, total
