"""The transactions that this node coordinates: one shard for each partition of `__transaction_state` that it leads.

Finds the shard of a transactional id, follows the metadata image, takes producer ids for decisions that need one, and
has markers written. Calls go to coordinator/runtime.py and markers.py. Refuses: NotCoordinator for ids of other
nodes, CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from penstock.config.settings import BrokerSettings
from penstock.coordinator.errors import NotCoordinator
from penstock.coordinator.partition_log import PartitionLog
from penstock.coordinator.runtime import Coordinator
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, EMPTY, Image
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, TopicPartition
from penstock.model.topic import TRANSACTION_STATE
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
from penstock.transactions.admin import matcher
from penstock.transactions.commands import (
    AbortNeedsProducerId,
    AbortTimedOut,
    AddPartitions,
    ListedTransaction,
    ListTransactions,
    Markers,
    MarkersWritten,
    ProducerIdNeeded,
)
from penstock.transactions.configured import TRANSACTION_VERSION, transaction_settings
from penstock.transactions.errors import ConcurrentTransactions
from penstock.transactions.markers import MarkerDriver, WriteMarker
from penstock.transactions.records import TransactionRecord
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 5_000
"""How long a request waits for its record to be committed before it is told to come again."""


class Transactions:
    def __init__(
        self,
        *,
        node_id: NodeId,
        replicas: Replicas,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
        partition_of: Callable[[str, int], int],
        take_producer_id: Callable[[], Awaitable[int]],
        write_marker: WriteMarker,
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._clock = clock
        self._current_settings = current_settings
        self._partition_of = partition_of
        self._take_producer_id = take_producer_id
        self._settings: TransactionSettings = transaction_settings(current_settings(), {})
        self._image: Image = EMPTY
        self._partition_count = 0
        self._shards: dict[int, TransactionShard] = {}
        """Also those that are being loaded: they must not miss what changes meanwhile."""
        self._epochs: dict[int, int] = {}
        """The partitions that this node leads, and in which leader epoch."""
        self._asking: set[asyncio.Task[None]] = set()
        self._coordinator: Coordinator[TransactionRecord] = Coordinator(self._make_shard, clock, self)
        self._markers = MarkerDriver(
            write_marker=write_marker, complete=self._complete, is_gone=self._is_gone, clock=clock
        )

    # -- commands --------------------------------------------------------------------------

    async def ask(self, transactional_id: str, command: Any) -> Any:
        """The reply to a command about a transactional id. Raises a Refusal if there is none."""
        try:
            reply = await self.submit(transactional_id, command)
            if isinstance(reply, ProducerIdNeeded):
                fresh = await self._take_producer_id()
                reply = await self.submit(transactional_id, replace(command, fresh_producer_id=fresh))
            return reply
        except Refusal:
            raise
        except Exception as error:
            # Logged where it happened. One transaction's trouble must not cost the client its connection.
            raise Refusal(f"{type(command).__name__} failed") from error

    def submit(self, transactional_id: str, command: Any) -> "asyncio.Future[Any]":
        """Run a command that needs no producer id. Raises at once if the id is not served here."""
        if not self._partition_count:
            raise NotCoordinator
        return self._coordinator.submit(self._partition_of(transactional_id, self._partition_count), command)

    async def add_partitions(self, command: AddPartitions) -> int:
        """The code. What comes right behind the end of a transaction waits a moment for its last marker."""
        error: int = await self.ask(command.transactional_id, command)
        if error != ConcurrentTransactions.code:
            return error
        patience_s = self._current_settings().integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        await self._markers.ended(command.transactional_id, patience_s)
        error = await self.ask(command.transactional_id, command)
        return error

    async def list_transactions(self, command: ListTransactions) -> list[ListedTransaction]:
        """Those of all shards here. Refuses while one of them is loaded, and a pattern that is none."""
        matcher(command.pattern)
        futures = []
        for index in self._epochs:
            try:
                futures.append(self._coordinator.submit(index, command))
            except NotCoordinator:
                continue
        found: list[ListedTransaction] = []
        for answer in await asyncio.gather(*futures, return_exceptions=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, NotCoordinator):
                    raise answer
            else:
                found += answer
        return found

    async def loaded(self, transactional_id: str) -> None:
        """Wait until the id's shard has been read, if it is being read here."""
        if self._partition_count:
            await self._coordinator.loaded(self._partition_of(transactional_id, self._partition_count))

    @property
    def markers_pending(self) -> int:
        """How many decided transactions are still being told to their partitions."""
        return len(self._markers)

    def close(self) -> None:
        """Let go of everything; whoever waits is answered NOT_COORDINATOR. The next start goes on from the log."""
        for task in self._asking:
            task.cancel()
        self._epochs.clear()
        self._coordinator.close()
        self._markers.close()

    # -- what shards want done -------------------------------------------------------------

    def perform(self, index: int, action: Any) -> None:
        if isinstance(action, Markers):
            self._markers.start(index, self._epochs[index], action)
            return
        assert isinstance(action, AbortNeedsProducerId)
        task = asyncio.ensure_future(self._abort_timed_out(index, action))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def abandon(self, index: int) -> None:
        self._markers.abandon(index)

    async def _abort_timed_out(self, index: int, action: AbortNeedsProducerId) -> None:
        try:
            fresh = await self._take_producer_id()
            await self._coordinator.run(index, AbortTimedOut(action.transactional_id, fresh))
        except Refusal as refusal:
            # The shard asks again.
            log.info("%s is not aborted yet: %s", action.transactional_id, refusal)

    async def _complete(self, index: int, command: MarkersWritten) -> None:
        await self._coordinator.run(index, command)

    def _is_gone(self, partition: TopicPartition) -> bool:
        topic = self._image.topics.get(partition.topic)
        return topic is None or partition.partition >= len(topic.partitions)

    # -- the image changes -----------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        self._image = image
        kinds = {resource.type for resource in delta.configs_changed}
        if BROKER in kinds or TRANSACTION_VERSION in delta.features_changed or delta.before is EMPTY:
            self._settings = transaction_settings(self._current_settings(), image.features)
            for shard in self._shards.values():
                shard.settings = self._settings
        self._follow_leaders(delta, image)

    def _follow_leaders(self, delta: Delta, image: Image) -> None:
        if any(topic.name == TRANSACTION_STATE for topic in delta.topics_deleted):
            for index in list(self._epochs):
                self._resign(index)
        topic = image.topics.get(TRANSACTION_STATE)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        if topic is None:
            return
        for index in sorted(delta.partitions_changed.get(topic.id, ())):
            state = topic.partitions[index]
            if state.leader != self._node_id:
                self._resign(index)
            elif self._epochs.get(index) != state.leader_epoch:
                # A new epoch may mean that another node has led in between.
                self._lead(index, state.leader_epoch)

    def _make_shard(self, index: int) -> TransactionShard:
        shard = TransactionShard(self._settings)
        self._shards[index] = shard
        return shard

    def _lead(self, index: int, leader_epoch: int) -> None:
        partition = self._replicas.find(TRANSACTION_STATE, index)
        if partition is None:
            log.error("the transactions of %s-%d are offline with its log", TRANSACTION_STATE, index)
            return
        self._epochs[index] = leader_epoch
        self._coordinator.lead(index, PartitionLog(partition, self._clock, lambda: COMMIT_TIMEOUT_MS))

    def _resign(self, index: int) -> None:
        self._coordinator.resign(index)
        self._epochs.pop(index, None)
        self._shards.pop(index, None)
