"""The state of brokers, partitions and the metadata quorum, as rows."""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.actions.cluster.log_dirs import ReadOnlyLogDir, read_only_log_dirs
from penstock.actions.cluster.requests import (
    BrokerState,
    QuorumReplica,
    describe_brokers,
    describe_quorum,
    list_reassignments,
)
from penstock.actions.cluster_client import ClusterClient, open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError

NO_NODE = -1
SILENT_S = 5.0
Row = dict[str, Any]


def broker_rows(connection: Connection) -> list[Row]:
    with open_cluster(connection) as cluster:
        return read_broker_rows(cluster)


def read_broker_rows(cluster: ClusterClient) -> list[Row]:
    known = describe_brokers(cluster)
    leads: Counter[int] = Counter()
    holds: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    for partition in (each for topic in cluster.topics for each in topic.partitions):
        leads[int(partition.leader_id)] += 1
        holds.update(int(node) for node in partition.replica_nodes)
        behind.update(int(node) for node in partition.replica_nodes if node not in partition.isr_nodes)
    controller = _active_controller(cluster)
    unwritable = {each.node: each for each in read_only_log_dirs(cluster, cluster.brokers)}
    return [
        {
            "node": each.node_id,
            "address": f"{each.host}:{each.port}",
            "rack": each.rack,
            "state": _state(each, controller, unwritable.get(each.node_id)),
            "leads": leads[each.node_id],
            "replicas": holds[each.node_id],
            "behind": behind[each.node_id],
        }
        for each in by_host(known)
    ]


def by_host(brokers: Iterable[BrokerState]) -> list[BrokerState]:
    """Return brokers by id, but those of one host together, at the place of the first of them."""
    ordered = sorted(brokers)
    first: dict[str, int] = {}
    for each in ordered:
        first.setdefault(each.host, each.node_id)
    return sorted(ordered, key=lambda each: (first[each.host], each.node_id))


def find_problems(connection: Connection) -> list[str]:
    """Return a sentence per problem of the cluster; nothing if it is healthy."""
    with open_cluster(connection) as cluster:
        return read_problems(cluster)


def read_problems(cluster: ClusterClient) -> list[str]:
    """Return a sentence per problem of the cluster; nothing if it is healthy."""
    partitions = [each for topic in cluster.topics for each in topic.partitions]
    moving = len(list_reassignments(cluster))
    fenced = [each.node_id for each in describe_brokers(cluster) if each.is_fenced]
    read_only = read_only_log_dirs(cluster, cluster.brokers)
    offline = sum(each.leader_id < 0 for each in partitions)
    under = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions)
    found = []
    if offline:
        found.append(f"{offline} partitions have no leader: none of their in-sync replicas is running.")
    if under - offline > 0:
        found.append(f"{under} partitions have replicas that are not in sync.")
    if fenced:
        found.append(f"Node {', '.join(map(str, fenced))} is fenced: it is down or still starting.")
    for each in read_only:
        step = "Free space, or shorten retention." if each.is_full else "Check the log of the node."
        found.append(f"Node {each.node} is read-only: {each}. {step}")
    if found and moving:
        found.append(f"{moving} partitions are being reassigned.")
    return found


def node_rows(connection: Connection) -> list[Row]:
    with open_cluster(connection) as cluster:
        known = {each.node_id: each for each in describe_brokers(cluster)}
        try:
            state = describe_quorum(cluster)
        except ActionError:
            controller, voters = NO_NODE, {}
        else:
            controller, voters = state.leader, {each.node_id: each for each in state.replicas if each.is_voter}
    now_ms = time.time() * 1000
    rows = []
    # Controllers that are not brokers have no known address.
    order = [*(each.node_id for each in by_host(known.values())), *sorted({*voters} - {*known})]
    for node in order:
        broker = known.get(node)
        roles = [name for name, has in (("broker", broker is not None), ("controller", node in voters)) if has]
        rows.append(
            {
                "node": node,
                "address": f"{broker.host}:{broker.port}" if broker else None,
                "rack": broker.rack if broker else None,
                "roles": roles,
                "state": _state(broker, controller) if broker else voter_state(voters[node], controller, now_ms),
            }
        )
    return rows


def quorum_rows(connection: Connection) -> tuple[str, list[Row]]:
    """Return a summary and a row per replica of the metadata quorum."""
    with open_cluster(connection) as cluster:
        state = describe_quorum(cluster)
    now_ms = time.time() * 1000
    rows = [
        {
            "node": each.node_id,
            "role": "leader" if each.node_id == state.leader else "voter" if each.is_voter else "observer",
            "end_offset": each.end_offset,
            "behind": each.behind,
            "last_fetch": f"{_silent_s(each, now_ms):.1f} s ago" if each.last_fetch_ms >= 0 else None,
        }
        for each in state.replicas
    ]
    return f"leader {state.leader}, epoch {state.epoch}, high watermark {state.high_watermark}", rows


def active_controller(connection: Connection) -> int:
    """Return the active controller, or -1 if the cluster does not tell."""
    with open_cluster(connection) as cluster:
        return _active_controller(cluster)


def _active_controller(cluster: ClusterClient) -> int:
    """Return the leader of the metadata quorum. The controller in Metadata is any node that forwards changes."""
    try:
        return describe_quorum(cluster).leader
    except ActionError:
        return NO_NODE


def _state(broker: BrokerState, controller: int, unwritable: ReadOnlyLogDir | None = None) -> str:
    if broker.is_fenced:
        return "fenced"
    if unwritable is not None:
        return "up, disk full" if unwritable.is_full else "up, read-only"
    return "up, controller" if broker.node_id == controller else "up"


def voter_state(voter: QuorumReplica, controller: int, now_ms: float) -> str:
    """Return the state of a controller that is not a broker, from its last fetch of the metadata log."""
    if voter.node_id == controller:
        return "up, controller"
    if voter.last_fetch_ms < 0:
        return "not heard of"
    silent_s = _silent_s(voter, now_ms)
    return "up" if silent_s < SILENT_S else f"silent for {silent_s:.0f} s"


def _silent_s(voter: QuorumReplica, now_ms: float) -> float:
    return max(0.0, now_ms - voter.last_fetch_ms) / 1000
