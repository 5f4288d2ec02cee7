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
from penstock.coordinator.runtime import CoordinatorRuntime, answer_of
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
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 30_000
"""How long a request waits for its record to be committed before it is told to come again. Longer than a silent
follower stays in the set: a client that is told to come again looks for its coordinator anew, and may ask the very
node that is silent."""


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
        self._asking: set[asyncio.Task[None]] = set()
        self._markers = MarkerDriver(
            write_marker=write_marker, complete=self._complete, is_gone=self._is_gone, clock=clock
        )

    # -- commands --------------------------------------------------------------------------

    async def ask(self, transactional_id: str, command: Any) -> Any:
        """The reply to a command about a transactional id. Raises a Refusal if there is none."""
        reply = await answer_of(self.submit(transactional_id, command), command)
        if isinstance(reply, ProducerIdNeeded):
            command = replace(command, fresh_producer_id=await self._take_producer_id())
            reply = await answer_of(self.submit(transactional_id, command), command)
        return reply

    def submit(self, transactional_id: str, command: Any) -> "asyncio.Future[Any]":
        """Run a command that needs no producer id. Raises at once if the id is not served here."""
        return self._shards.submit(transactional_id, command)

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
        return await self._shards.ask_all(command)

    async def loaded(self, transactional_id: str) -> None:
        """Wait until the id's shard has been read, if it is being read here."""
        await self._shards.loaded(transactional_id)

    @property
    def markers_pending(self) -> int:
        """How many decided transactions are still being told to their partitions."""
        return len(self._markers)

    def close(self) -> None:
        """Let go of everything; whoever waits is answered NOT_COORDINATOR. The next start goes on from the log."""
        for task in self._asking:
            task.cancel()
        self._shards.close()
        self._markers.close()

    # -- what shards want done -------------------------------------------------------------

    def perform(self, index: int, action: Any) -> None:
        if isinstance(action, Markers):
            self._markers.start(index, self._shards.epochs[index], action)
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
            await self._shards.submit_to(index, AbortTimedOut(action.transactional_id, fresh))
        except Refusal as refusal:
            # The shard asks again.
            log.info("%s is not aborted yet: %s", action.transactional_id, refusal)

    async def _complete(self, index: int, command: MarkersWritten) -> None:
        await self._shards.submit_to(index, command)

    def _is_gone(self, partition: TopicPartition) -> bool:
        topic = self._image.topics.get(partition.topic)
        return topic is None or partition.partition >= len(topic.partitions)

    # -- the image changes -----------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        self._image = image
        kinds = {resource.type for resource in delta.configs_changed}
        if BROKER in kinds or TRANSACTION_VERSION in delta.features_changed or delta.before is EMPTY:
            self._settings = transaction_settings(self._current_settings(), image.features)
            for shard in self._shards:
                shard.settings = self._settings
        self._shards.image_changed(delta, image)
