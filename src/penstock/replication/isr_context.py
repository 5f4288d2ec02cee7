"""The interface between a leader and the rest of its node: facts about brokers, and proposals to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.model.ids import NodeId
from penstock.replication.isr import Proposal

if TYPE_CHECKING:
    from penstock.replication.partition import Partition


class IsrContext(Protocol):
    """Everything that a partition needs to manage its in-sync replicas."""

    @property
    def lag_s_max(self) -> float: ...

    def now(self) -> float: ...

    def may_join(self, partition: Partition, node_id: NodeId, broker_epoch: int) -> bool:
        """Return whether a replica may join the ISR: its broker has this epoch and is alive, and its disk is usable."""
        ...

    def is_alive(self, node_id: NodeId) -> bool: ...

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Propose another ISR to the controller."""
        ...
