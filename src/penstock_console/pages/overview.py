"""The first page: what needs attention, nodes, quorum, rates and the groups with the largest lag."""

from typing import Any, Final, NamedTuple
from urllib.parse import quote

from penstock.actions.cluster.requests import describe_quorum
from penstock.actions.cluster.status import read_broker_rows, read_problems
from penstock.actions.cluster_client import ClusterClient
from penstock.actions.errors import ActionError
from penstock.actions.plurals import count_of
from penstock_console.clusters import ClusterAccess, Metadata
from penstock_console.endpoints import Call, Endpoint
from penstock_console.pages.groups import progress
from penstock_console.pages.pipelines import failed_flows
from penstock_console.pages.transactions import find_hanging

BUSIEST_COUNT: Final = 10
SEARCHED_MAX: Final = 500
"""Hanging transactions are looked for in clusters with at most as many partitions."""
GROWING_S: Final = 60.0
"""A group whose lag grows and is older than this needs attention."""


class ClusterState(NamedTuple):
    """What brokers say about the cluster."""

    nodes: list[dict[str, Any]]
    problems: list[str]
    quorum: dict[str, Any] | None


def read_state(cluster: ClusterClient) -> ClusterState:
    return ClusterState(read_broker_rows(cluster), _problems(cluster), quorum(cluster))


def overview(call: Call) -> dict[str, Any]:
    access = call.access
    metadata = access.metadata()
    state = access.state(read_state)
    groups = _groups(access)
    return {
        "as_of_ms": metadata.as_of_ms,
        "cluster_id": metadata.cluster_id,
        "controller": state.quorum["leader"] if state.quorum is not None else None,
        "attention": [*map(_attention, state.problems), *_growing(groups), *_failed(call), *_hanging(access, metadata)],
        "nodes": state.nodes,
        "counts": _counts(metadata, groups),
        "rates": {"records_in": access.history.latest("cluster.rate")},
        "quorum": state.quorum,
        "busiest": _busiest(access, metadata),
        "groups": [
            {name: row[name] for name in ("group", "lag", "seconds", "trend")} for row in groups[:BUSIEST_COUNT]
        ],
    }


def _groups(access: ClusterAccess) -> list[dict[str, Any]]:
    """Return the groups, the one with the largest lag first; none while a coordinator cannot be reached."""
    try:
        found = [progress(access, group) for group in access.groups(fresh_s=5.0).values()]
    except ActionError:
        return []
    return sorted(found, key=lambda row: -row["lag"])


def quorum(cluster: ClusterClient) -> dict[str, Any] | None:
    """Return the metadata quorum; None if the cluster does not describe it, or the user may not see it."""
    try:
        return _quorum(cluster)
    except ActionError:
        return None


def _quorum(cluster: ClusterClient) -> dict[str, Any]:
    state = describe_quorum(cluster)
    return {
        "leader": state.leader,
        "epoch": state.epoch,
        "high_watermark": state.high_watermark,
        "replicas": [
            {
                "node": each.node_id,
                "role": "leader" if each.node_id == state.leader else "voter" if each.is_voter else "observer",
                "end_offset": each.end_offset,
                "behind": each.behind,
                "last_fetch_ms": each.last_fetch_ms if each.last_fetch_ms >= 0 else None,
            }
            for each in state.replicas
        ],
    }


def _problems(cluster: ClusterClient) -> list[str]:
    try:
        return read_problems(cluster)
    except ActionError as error:
        # Users with few rights may not ask for reassignments.
        return [] if error.code.endswith("AUTHORIZATION_FAILED") else [str(error)]


def _attention(text: str) -> dict[str, Any]:
    """Classify a sentence of `find_problems`."""
    for kind, severity, part, link in (
        ("offline", "error", "have no leader", "topics?state=offline"),
        ("under_replicated", "warning", "not in sync", "topics?state=under_replicated"),
        ("fenced", "error", "is fenced", "nodes"),
        ("read_only_disk", "error", "is read-only", "nodes"),
    ):
        if part in text:
            return {"severity": severity, "kind": kind, "text": text, "link": link}
    return {"severity": "warning", "kind": "reassignment", "text": text, "link": "nodes"}


def _growing(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "severity": "warning",
            "kind": "lag",
            "text": f"Group {row['group']} falls behind: its lag grows by {row['trend']:,.1f} records per second.",
            "link": f"groups/{quote(row['group'], safe='')}",
        }
        for row in groups
        if (row["trend"] or 0) > 0 and (row["seconds"] or 0) > GROWING_S
    ]


def _failed(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "severity": "error",
            "kind": "flow",
            "text": f"Flow {flow} of pipeline {pipeline} has failed: {error}",
            "link": f"pipelines/{quote(pipeline, safe='')}",
        }
        for pipeline, flow, error in failed_flows(call)
    ]


def _hanging(access: ClusterAccess, metadata: Metadata) -> list[dict[str, Any]]:
    if sum(len(topic.partitions) for topic in metadata.topics.values()) > SEARCHED_MAX:
        return []
    found, _ = access.hanging(find_hanging)
    if not found:
        return []
    hanging = count_of(len(found), "hanging transaction")
    text = f"Consumers with read_committed wait for {hanging}, which no coordinator will end."
    return [{"severity": "warning", "kind": "hanging", "text": text, "link": "transactions"}]


def _counts(metadata: Metadata, groups: list[dict[str, Any]]) -> dict[str, int]:
    topics = metadata.topics.values()
    return {
        "topics": sum(not topic.is_internal for topic in topics),
        "internal_topics": sum(topic.is_internal for topic in topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "offline": sum(topic.offline for topic in topics),
        "under_replicated": sum(topic.under_replicated for topic in topics),
        "groups": len(groups),
    }


def _busiest(access: ClusterAccess, metadata: Metadata) -> list[dict[str, Any]]:
    rates = [
        (access.history.latest(f"topic.rate:{name}") or 0.0, name)
        for name, topic in metadata.topics.items()
        if not topic.is_internal
    ]
    return [{"topic": name, "rate": rate} for rate, name in sorted(rates, reverse=True)[:BUSIEST_COUNT] if rate > 0]


ENDPOINTS = (Endpoint(path="overview", doc="What needs attention, nodes, quorum, rates and lags.", read=overview),)
