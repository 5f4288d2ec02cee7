"""Nodes, the metadata quorum, reassignments and log directories."""

import time
from typing import Any

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from penstock.actions.cluster.requests import list_reassignments
from penstock.actions.cluster.status import broker_rows, node_rows, read_broker_rows
from penstock.actions.errors import ActionError, unknown_node
from penstock.wire.api import ApiKey
from penstock_console.clusters import ClusterAccess
from penstock_console.endpoints import Call, Endpoint
from penstock_console.pages.overview import quorum
from penstock_console.parameters import integer


def show_nodes(call: Call) -> dict[str, Any]:
    access = call.access
    with access.open() as cluster:
        brokers = {row["node"]: row for row in read_broker_rows(cluster)}
        voters = quorum(cluster)
    nodes = []
    for row in node_rows(access.connection):
        counted = brokers.get(row["node"], {})
        state = counted.get("state", row["state"])
        more = {name: counted.get(name) for name in ("leads", "replicas", "behind")}
        nodes.append({**row, "state": state, **more})
    return {
        "as_of_ms": int(time.time() * 1000),
        "nodes": nodes,
        "quorum": voters,
        "reassignments": _reassignments(access),
    }


def _reassignments(access: ClusterAccess) -> list[dict[str, Any]]:
    try:
        with access.open() as cluster:
            found = list_reassignments(cluster)
    except ActionError:
        return []
    topics = access.metadata().topics
    rows = []
    for (topic, index), adding in sorted(found.items()):
        known = {each.number: each.replicas for each in topics[topic].partitions} if topic in topics else {}
        rows.append({"topic": topic, "partition": index, "replicas": known.get(index, ()), "adding": adding})
    return rows


def show_node(call: Call) -> dict[str, Any]:
    access, node = call.access, integer("node", call["node"], most=2**31 - 1)
    row = next((each for each in broker_rows(access.connection) if each["node"] == node), None)
    if row is None:
        raise unknown_node(node)
    return {"as_of_ms": int(time.time() * 1000), **row, "log_dirs": _log_dirs(access, node)}


def _log_dirs(access: ClusterAccess, node: int) -> list[dict[str, Any]] | None:
    """Return the log directories of a node; None if it does not answer."""
    try:
        with access.open() as cluster:
            answer = cluster.send(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
    except (ActionError, StopIteration):
        return None
    return [
        {
            "path": folder.log_dir,
            "bytes": sum(int(each.partition_size) for topic in folder.topics for each in topic.partitions),
            "usable_bytes": _known(folder.usable_bytes),
            "total_bytes": _known(folder.total_bytes),
            "cordoned": bool(folder.is_cordoned),
            "error": folder.error_code.name if folder.error_code.value else None,
            "partitions": sum(len(topic.partitions) for topic in folder.topics),
        }
        for folder in answer.results
    ]


def _known(value: int) -> int | None:
    return int(value) if value >= 0 else None


ENDPOINTS = (
    Endpoint(path="nodes", doc="Nodes, the metadata quorum and reassignments.", read=show_nodes),
    Endpoint(path="nodes/{node}", doc="A node and its log directories.", read=show_node),
)
