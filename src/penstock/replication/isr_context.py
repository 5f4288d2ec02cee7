"""What a leader asks of the rest of its node about other brokers and the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.model.ids import NodeId
from penstock.replication.isr import Proposal

if TYPE_CHECKING:
    from penstock.replication.partition import Partition


class IsrContext(Protocol):
    """What a partition with followers needs of the rest of the node."""

    @property
    def lag_s_max(self) -> float: ...

    def now(self) -> float: ...

    def may_join(self, partition: Partition, node_id: NodeId, broker_epoch: int) -> bool:
        """Whether a replica may be a member of the in-sync set: registered with that epoch, alive, its disk there."""
        ...

    def is_alive(self, node_id: NodeId) -> bool: ...

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Ask the controller for another in-sync set."""
        ...
