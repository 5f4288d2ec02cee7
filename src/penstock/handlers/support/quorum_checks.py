"""Checks of every request of the metadata quorum, before it reaches the raft core.

Refuses: InconsistentClusterId for a node of another cluster, InvalidRequest for one with this node's id.
"""

from typing import TYPE_CHECKING

from penstock.model.errors import InconsistentClusterId, InvalidRequest

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context


def check_cluster(context: "Context", cluster_id: str | None) -> None:
    """Check the cluster id; old requests may omit it."""
    if cluster_id is not None and cluster_id != context.cluster_id:
        raise InconsistentClusterId(f"This is cluster {context.cluster_id}, not {cluster_id}.")


def check_peer(context: "Context", node_id: int) -> None:
    if node_id < 0 or node_id == context.node_id:
        raise InvalidRequest(f"Node {node_id} is this node itself.")
