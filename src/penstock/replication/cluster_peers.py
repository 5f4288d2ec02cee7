"""The connection between partitions with several replicas and the rest of the cluster.

Passes the proposals of isr.py to alter_isr.py, roles to fetchers.py and damage to repair.py. replicas.py creates one
per node; a single node has none. Facts about brokers come from the current metadata image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.interfaces import ControllerChannel
from penstock.config.settings import BrokerSettings
from penstock.metadata.image import Image, PartitionImage
from penstock.model.errors import StorageError
from penstock.model.ids import NO_NODE, NodeId, PartitionIndex, TopicPartition
from penstock.ports.clock import Clock
from penstock.ports.network import Dialer
from penstock.replication.alter_isr import IsrChanges, loading
from penstock.replication.fetchers import Fetchers
from penstock.replication.isr import Proposal
from penstock.replication.partition import Partition
from penstock.replication.repair import Repairs, directory_of, is_usable
from penstock.replication.throttle import FOLLOWER, Throttle
from penstock.storage.store import LogStore

if TYPE_CHECKING:
    from penstock.replication.replicas import Replicas

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAccess:
    """What a broker needs to reach other nodes."""

    network: Dialer
    channel: ControllerChannel
    broker_epoch: Callable[[], int]
    """Return the epoch of this broker's registration, -1 before it is registered."""
    address_of: Callable[[NodeId], tuple[str, int] | None]
    """Return the address of another broker, None if it is unknown."""
    has_lease: Callable[[], bool] = lambda: True
    """Return whether no controller can have fenced this broker for silence. Without it, others may lead its partitions
    although its metadata shows it as their leader."""


class ClusterPeers:
    """The fetchers, ISR proposals and repairs of one node. Implements `IsrContext` and `FetcherContext`."""

    def __init__(
        self,
        peer_access: PeerAccess,
        *,
        node_id: NodeId,
        store: LogStore,
        clock: Clock,
        settings: Callable[[], BrokerSettings],
        replicas: Replicas,
    ) -> None:
        self.node_id = node_id
        self.network = peer_access.network
        self.clock = clock
        self.settings = settings
        self.broker_epoch = peer_access.broker_epoch
        self.address_of = peer_access.address_of
        self.now = clock.monotonic
        self.follower_throttle = Throttle(FOLLOWER, clock.monotonic, settings())
        self._store = store
        self._replicas = replicas
        self._fetchers = Fetchers(self)
        # Whether the code for proposals is loaded, which a single node never needs.
        self._is_loaded = False
        self._changes = IsrChanges(peer_access.channel, clock, node_id=node_id, broker_epoch=peer_access.broker_epoch)
        self._repairs = Repairs(
            peer_access.channel,
            clock,
            node_id=node_id,
            own_directory=store.directory_id,
            broker_epoch=peer_access.broker_epoch,
            replace=self._replace,
            repaired=self._repaired,
        )

    @property
    def lag_s_max(self) -> float:
        return self.settings().integer("replica.lag.time.max.ms") / 1000

    @property
    def is_opening_many(self) -> bool:
        return bool(self._replicas.late)

    def brokers_changed(self, image: Image) -> None:
        if len(image.brokers) > 1 and not self._is_loaded:
            self._is_loaded = True
            self._store.directory.run(loading(), lambda result, error: None)

    # -- roles ---------------------------------------------------------------------------------

    def take_role(self, partition: Partition, state: PartitionImage) -> None:
        self._repairs.update(partition, state)
        if partition.log.damage is None and partition.leadership is None and partition.leader != NO_NODE:
            self._fetchers.follow(partition)
        else:
            self._fetchers.leave(partition)

    def stop_replica(self, partition: Partition) -> None:
        self._fetchers.leave(partition)
        self._repairs.forget(partition)

    def close(self) -> None:
        self._fetchers.close()
        self._changes.close()
        self._repairs.close()

    # -- in-sync replicas ----------------------------------------------------------------------

    @property
    def isr_changes_refused(self) -> int:
        return self._changes.refused

    def may_join(self, partition: Partition, node_id: NodeId, broker_epoch: int) -> bool:
        image = self._replicas.image
        broker = image.brokers.get(node_id)
        state = image.partition(partition.topic, partition.index)
        if broker is None or broker.fenced or broker.in_controlled_shutdown or broker.epoch != broker_epoch:
            return False
        if broker.read_only:
            return False
        if state is None or node_id not in state.replicas:
            return False
        return is_usable(directory_of(state, node_id), broker.log_dirs)

    def is_alive(self, node_id: NodeId) -> bool:
        broker = self._replicas.image.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        self._changes.propose(partition, proposal)

    # -- events from fetchers ------------------------------------------------------------------

    def fetched(self, partition: Partition, leader_mark: int) -> None:
        if self._repairs.any_watched:
            self._repairs.fetched(partition, leader_mark, self._replicas.image)

    def damaged(self, partition: Partition) -> None:
        state = self._replicas.image.partition(partition.topic, partition.index)
        if state is not None:
            log.error(
                "the replica of %s-%d on this node is damaged: %s",
                partition.topic,
                partition.index,
                partition.log.damage,
            )
            self.take_role(partition, state)

    async def wait_losses_reported(self) -> None:
        await self._repairs.wait_losses_reported()

    def report_damage(self, partitions: list[Partition]) -> None:
        """Start the repair of damaged partitions that have other replicas, unless it has started already."""
        for partition in partitions:
            if len(partition.replicas) > 1 and not self._repairs.is_watched(partition):
                self.damaged(partition)

    # -- repair --------------------------------------------------------------------------------

    def _replace(self, partition: Partition) -> None:
        topic_partition = TopicPartition(partition.topic, PartitionIndex(partition.index))
        self._fetchers.leave(partition)
        try:
            folder = self._store.set_aside_damaged(topic_partition)
        except (OSError, StorageError) as error:
            log.error("cannot set aside the damaged log of %s: %s", topic_partition, error)
            if self._store.get(topic_partition) is partition.log:
                # The next sweep of the replicas reports the damage again, and tries again.
                self._repairs.forget(partition)
                return
        else:
            log.warning("%s is copied again from its leader, node %d; the damaged log is kept in %s until then",
                        topic_partition, partition.leader, folder)  # fmt: skip
        self._replicas.reopen(partition)

    def _repaired(self, partition: Partition) -> None:
        topic_partition = TopicPartition(partition.topic, PartitionIndex(partition.index))
        log.info("%s is repaired: its log is complete", topic_partition)
        self._store.remove_damaged(topic_partition)
