"""The share coordinator of this node: one shard for each partition of `__share_group_state` that it leads.

Routes commands to the shard of a share partition, follows the metadata image, and deletes records that no state needs
any more. Calls go to coordinator/runtime.py. Refuses: NotCoordinator for keys of other nodes,
CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from penstock.config.settings import BrokerSettings
from penstock.coordinator.runtime import CoordinatorRuntime, answer_of
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, EMPTY, Image
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId
from penstock.model.topic import SHARE_GROUP_STATE
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
from penstock.shares.commands import ForgetTopics, Prune, StateReply, WriteState
from penstock.shares.configured import shard_settings
from penstock.shares.keys import coordinator_key
from penstock.shares.shard import ShareShard
from penstock.shares.states import SharePartitionKey

log = logging.getLogger(__name__)


class ShareCoordinator:
    def __init__(
        self,
        *,
        node_id: NodeId,
        replicas: Replicas,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
    ) -> None:
        self._current_settings = current_settings
        self._settings = shard_settings(current_settings())
        self._image: Image = EMPTY
        self._shards: CoordinatorRuntime[ShareShard] = CoordinatorRuntime(
            SHARE_GROUP_STATE,
            node_id=node_id,
            replicas=replicas,
            clock=clock,
            make_shard=lambda: ShareShard(self._settings, has_partition=self._has_partition),
            commit_timeout_ms=lambda: current_settings().integer("share.coordinator.write.timeout.ms"),
            performer=self,
        )
        self.writes = 0
        """The number of WriteState commands."""
        self._cleanups: set[asyncio.Task[None]] = set()
        self._shards.on_taken = self._start_cleanup

    # -- commands --------------------------------------------------------------------------

    async def ask(self, key: SharePartitionKey, command: Any) -> StateReply:
        """Return the reply to a command; errors of the coordinator are replies too."""
        if type(command) is WriteState:
            written: asyncio.Future[StateReply] = asyncio.get_running_loop().create_future()
            self.write(command, lambda reply: None if written.done() else written.set_result(reply))
            return await written
        try:
            reply: StateReply = await answer_of(self._shards.submit(coordinator_key(key), command), command)
        except Refusal as refusal:
            return _refused(refusal)
        return reply

    def write(self, command: WriteState, done: Callable[[StateReply], None]) -> None:
        """Write with others of the same iteration of the event loop; `done` gets the reply, maybe before this returns.

        Errors of the coordinator are replies too.
        """
        self.writes += 1
        try:
            self._shards.share(
                coordinator_key(command.key),
                command,
                lambda reply, error: done(reply if error is None else _refused(error)),
            )
        except Refusal as refusal:
            done(_refused(refusal))

    async def loaded(self, key: str) -> None:
        """Wait until the key's shard is loaded, if this node is loading it."""
        await self._shards.loaded(key)

    def shard(self, index: int) -> ShareShard | None:
        """Return the shard of a partition, if it is loaded or loading."""
        return self._shards.get(index)

    @property
    def count(self) -> int:
        """Return the number of share partitions with state on this node."""
        return sum(len(shard.states) for shard in self._shards)

    def close(self) -> None:
        for task in self._cleanups:
            task.cancel()
        self._shards.close()

    # -- actions of shards -----------------------------------------------------------------

    def perform(self, index: int, action: Any) -> None:
        assert isinstance(action, Prune)
        self._shards.trim(index, action.offset)

    def abandon(self, index: int) -> None:
        """Pruning takes effect immediately, so there is nothing to stop."""

    # -- image changes ---------------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        self._image = image
        if any(resource.type == BROKER for resource in delta.configs_changed):
            self._settings = shard_settings(self._current_settings())
            for shard in self._shards:
                shard.settings = self._settings
        for index in self._shards.image_changed(delta, image):
            self._start_cleanup(index)
        if delta.topics_deleted:
            command = ForgetTopics(frozenset(topic.id for topic in delta.topics_deleted))
            for index in list(self._shards.epochs):
                self._forget(index, command)

    def _has_partition(self, topic_id: UUID, partition: int) -> bool:
        topic = self._image.topics_by_id.get(topic_id)
        return topic is not None and partition < len(topic.partitions)

    def _start_cleanup(self, index: int) -> None:
        task = asyncio.ensure_future(self._forget_missing(index))
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)

    async def _forget_missing(self, index: int) -> None:
        """Delete the state of topics that were deleted while the partition had no coordinator."""
        await self._shards.partition_loaded(index)
        shard = self._shards.get(index)
        if shard is not None:
            gone = frozenset(key.topic_id for key in shard.states if key.topic_id not in self._image.topics_by_id)
            if gone:
                self._forget(index, ForgetTopics(gone))

    def _forget(self, index: int, command: ForgetTopics) -> None:
        try:
            future = self._shards.submit_to(index, command)
        except Refusal:
            # Still loading: the cleanup that follows the load deletes this state too.
            return
        future.add_done_callback(_log_failure)


def _refused(error: Exception) -> StateReply:
    if isinstance(error, Refusal):
        return StateReply(error=error.code, message=error.message)
    log.error("a write of share-group state failed", exc_info=error)
    return StateReply(error=Refusal.code, message="the state could not be written")


def _log_failure(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("cannot delete the share-group state of deleted topics, it stays until the next load: %s", error)
