"""The transaction coordinator of this node: one shard for each partition of `__transaction_state` that it leads.

Finds the shard of a transactional id, follows the metadata image, allocates producer ids for decisions that need one,
and starts the writing of markers. Calls go to coordinator/runtime.py and marker_driver.py. Refuses: NotCoordinator for
ids of other nodes, CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from penstock.config.settings import BrokerSettings
from penstock.coordinator.runtime import CoordinatorRuntime, answer_of
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, EMPTY, Image
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, TopicPartition
from penstock.model.topic import TRANSACTION_STATE
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
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
from penstock.transactions.marker_driver import MarkerDriver, WriteMarker
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 30_000
"""How long a request waits for its record to be committed before it fails with a retriable error. Longer than
an unresponsive follower stays in the ISR, because the client then looks up its coordinator again, and may send
that request to the unresponsive broker."""


class Transactions:
    def __init__(
        self,
        *,
        node_id: NodeId,
        replicas: Replicas,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
        take_producer_id: Callable[[], Awaitable[int]],
        write_marker: WriteMarker,
    ) -> None:
        self._current_settings = current_settings
        self._take_producer_id = take_producer_id
        self._settings: TransactionSettings = transaction_settings(current_settings(), {})
        self._image: Image = EMPTY
        self._shards: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE,
            node_id=node_id,
            replicas=replicas,
            clock=clock,
            make_shard=lambda: TransactionShard(self._settings),
            commit_timeout_ms=lambda: COMMIT_TIMEOUT_MS,
            performer=self,
        )
        self._aborts: set[asyncio.Task[None]] = set()
        self._markers = MarkerDriver(
            write_marker=write_marker, complete=self._complete, is_deleted=self._is_deleted, clock=clock
        )

    # -- commands --------------------------------------------------------------------------

    async def ask(self, transactional_id: str, command: Any) -> Any:
        """Return the reply to a command, or raise a Refusal."""
        reply = await answer_of(self.submit(transactional_id, command), command)
        if isinstance(reply, ProducerIdNeeded):
            command = replace(command, fresh_producer_id=await self._take_producer_id())
            reply = await answer_of(self.submit(transactional_id, command), command)
        return reply

    def submit(self, transactional_id: str, command: Any) -> "asyncio.Future[Any]":
        """Submit a command that needs no producer id. Raises if this node does not coordinate the id."""
        return self._shards.submit(transactional_id, command)

    async def add_partitions(self, command: AddPartitions) -> int:
        """Return the code; waits briefly for the markers of the previous transaction if they are being written."""
        error: int = await self.ask(command.transactional_id, command)
        if error != ConcurrentTransactions.code:
            return error
        timeout_s = self._current_settings().integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        await self._markers.ended(command.transactional_id, timeout_s)
        error = await self.ask(command.transactional_id, command)
        return error

    async def list_transactions(self, command: ListTransactions) -> list[ListedTransaction]:
        """Return the transactions of all shards. Raises a Refusal if one is loading."""
        return await self._shards.ask_all(command)

    async def loaded(self, transactional_id: str) -> None:
        """Wait until the id's shard is loaded, if this node is loading it."""
        await self._shards.loaded(transactional_id)

    def close(self) -> None:
        """Unload all shards; waiting requests get NOT_COORDINATOR. The next load continues from the log."""
        for task in self._aborts:
            task.cancel()
        self._shards.close()
        self._markers.close()

    # -- actions of shards -----------------------------------------------------------------

    def perform(self, index: int, action: Any) -> None:
        if isinstance(action, Markers):
            self._markers.start(index, self._shards.epochs[index], action)
            return
        assert isinstance(action, AbortNeedsProducerId)
        task = asyncio.ensure_future(self._abort_timed_out(index, action))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    def abandon(self, index: int) -> None:
        self._markers.abandon(index)

    async def _abort_timed_out(self, index: int, action: AbortNeedsProducerId) -> None:
        try:
            fresh = await self._take_producer_id()
            await self._shards.submit_to(index, AbortTimedOut(action.transactional_id, fresh))
        except Refusal as refusal:
            # The timer of the shard retries it.
            log.info("cannot abort the transaction of %s yet: %s", action.transactional_id, refusal)

    async def _complete(self, index: int, command: MarkersWritten) -> None:
        await self._shards.submit_to(index, command)

    def _is_deleted(self, partition: TopicPartition) -> bool:
        topic = self._image.topics.get(partition.topic)
        return topic is None or partition.partition >= len(topic.partitions)

    # -- image changes ---------------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        self._image = image
        kinds = {resource.type for resource in delta.configs_changed}
        if BROKER in kinds or TRANSACTION_VERSION in delta.features_changed or delta.before is EMPTY:
            self._settings = transaction_settings(self._current_settings(), image.features)
            for shard in self._shards:
                shard.settings = self._settings
        self._shards.image_changed(delta, image)
