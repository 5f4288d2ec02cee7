"""What every request of the metadata quorum is checked for, before the core hears of it.

Refuses: InconsistentClusterId for a node of another cluster, InvalidRequest for one that says it is this node.
"""

from typing import TYPE_CHECKING

from penstock.model.errors import InconsistentClusterId, InvalidRequest

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context


def check_cluster(context: "Context", cluster_id: str | None) -> None:
    """Old requests may not say which cluster they mean."""
    if cluster_id is not None and cluster_id != context.cluster_id:
        raise InconsistentClusterId(f"This is cluster {context.cluster_id}, not {cluster_id}.")


def check_peer(context: "Context", node_id: int) -> None:
    if node_id < 0 or node_id == context.node_id:
        raise InvalidRequest(f"Node {node_id} is not another node.")
