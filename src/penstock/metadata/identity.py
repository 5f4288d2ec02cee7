"""The identity of this node in messages to the other nodes of the quorum. A value."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from penstock.metadata.voters import VoterEndpoint
from penstock.model.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    cluster_id: str | None
    node_id: NodeId
    directory_id: UUID
    endpoints: Callable[[], tuple[VoterEndpoint, ...]]
    """Where this node listens; known when its ports are bound."""
    fetch_bytes_max: int
    fetch_wait_ms: int
