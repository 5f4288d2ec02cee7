"""The group coordinator of this node: one shard for each partition of `__consumer_offsets` that it leads.

Routes commands to the shard of a group and follows the metadata image: loads and unloads shards as
leaders change, and applies changes of topics and settings to them. Calls go to
coordinator/runtime.py. Refuses: NotCoordinator for groups of other nodes, CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from penstock.config.settings import BrokerSettings
from penstock.controller.features import GROUP_VERSION
from penstock.coordinator.decision import TransactionEnd
from penstock.coordinator.runtime import CoordinatorRuntime, answer_of
from penstock.coordinator.shared import Done
from penstock.groups.commands import ForgetTopics, ListedGroup, ListGroups, OffsetCommit
from penstock.groups.configured import consumer_settings, group_settings, share_group_settings
from penstock.groups.consumer.assignors import NOTHING, Assignment
from penstock.groups.consumer.commands import ConsumerSettings
from penstock.groups.consumer.target import AssignmentFailed, AssignTarget, assigning
from penstock.groups.consumer.topics import Topics
from penstock.groups.member_memory import MemberMemory
from penstock.groups.shard import GroupShard
from penstock.groups.share.commands import InitializeShareState, ShareGroupSettings, ShareStateInitialized
from penstock.groups.share.group import ShareGroup
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, EMPTY, GROUP, ConfigResource, Image, TopicImage
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, PartitionIndex, TopicPartition
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
from penstock.scheduling.scheduler import UNPACED, Pace
from penstock.storage.verification_guard import VerificationGuard

log = logging.getLogger(__name__)

CONSUMER_PROTOCOL = "consumer"
_SETTINGS_KEPT = 1 << 14

InitializeState = Callable[[InitializeShareState], Awaitable[Assignment]]


async def _no_share_state(action: InitializeShareState) -> Assignment:
    return NOTHING


class Groups:
    def __init__(
        self,
        *,
        node_id: NodeId,
        replicas: Replicas,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
        initialize_share_state: InitializeState | None = None,
        pace: Pace = UNPACED,
    ) -> None:
        """Create the coordinator; `initialize_share_state` returns the partitions whose state it has initialized."""
        self._current_settings = current_settings
        self._initialize_share_state = initialize_share_state or _no_share_state
        self._share_settings_of: dict[str, ShareGroupSettings] = {}
        self._initializations: dict[asyncio.Task[None], tuple[int, str]] = {}
        self._assignments: dict[asyncio.Task[None], int] = {}
        self._pace = pace
        self._settings = group_settings(current_settings())
        self._settings_of: dict[str, ConsumerSettings] = {}
        self._image: Image = EMPTY
        self._topics = Topics()
        self._shards: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            CONSUMER_OFFSETS,
            node_id=node_id,
            replicas=replicas,
            clock=clock,
            make_shard=self._make_shard,
            commit_timeout_ms=lambda: current_settings().integer("offsets.commit.timeout.ms"),
            performer=self,
        )
        self._clock = clock
        self._member_memory = MemberMemory(lambda: sum(shard.metadata_size for shard in self._shards))
        self._cleanups: set[asyncio.Task[None]] = set()
        self._shards.on_taken = self._start_cleanup

    def admit_member(self, metadata_size: int) -> None:
        """Raise CoordinatorNotAvailable if the metadata of a classic member exceeds the memory budget."""
        budget = self._current_settings().integer("group.metadata.memory.max.bytes")
        self._member_memory.admit(metadata_size, budget=budget, now=self._clock.monotonic())

    # -- commands --------------------------------------------------------------------------

    def submit(self, group_id: str, command: Any) -> "asyncio.Future[Any]":
        """Submit a command and return a future of its reply. Raises if this node does not coordinate the group."""
        return self._shards.submit(group_id, command)

    async def ask(self, group_id: str, command: Any) -> Any:
        """Return the reply to a command, or raise a Refusal."""
        return await answer_of(self.submit(group_id, command), command)

    def commit(self, command: OffsetCommit, done: Done) -> None:
        """Commit offsets; call `done` with an OffsetCommitReply or a Refusal when the records are committed.

        Raises a Refusal if this node does not coordinate the group.
        """
        self._shards.share(command.group_id, command, done)

    # -- transactions ----------------------------------------------------------------------

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Return the partition that a transaction with offset commits of this group must include."""
        return TopicPartition(CONSUMER_OFFSETS, PartitionIndex(self._shards.index_of(group_id)))

    def begin_verification(self, group_id: str, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        """Begin the verification of a TxnOffsetCommit; the result is passed to that command.

        Must be called before the request to the transaction coordinator. Returns None if the transaction is
        already open in the group's partition, so that no request is needed.
        """
        index = self.offsets_partition(group_id).partition
        return self._shards.begin_verification(index, producer_id, producer_epoch)

    def end_transaction(self, index: int, end: TransactionEnd) -> "asyncio.Future[None]":
        """Write a marker to a partition of `__consumer_offsets`; done when it is committed and applied.

        The marker is appended before this returns, or not at all. Raises a Refusal directly or through the future:
        InvalidProducerEpoch, TransactionCoordinatorFenced, or a retriable error of any coordinator. Writing
        a marker twice is harmless: the second one ends nothing.
        """
        return self._shards.end_transaction(index, end)

    # -- many groups -----------------------------------------------------------------------

    async def list_groups(self, command: ListGroups) -> list[ListedGroup]:
        """Return the groups of all shards on this node."""
        return await self._shards.ask_all(command)

    @property
    def count(self) -> int:
        """Return the number of groups in all shards on this node."""
        return sum(len(shard.groups) for shard in self._shards)

    def share_states(self) -> Iterator[str]:
        """Yield the state of each share group in the shards on this node."""
        for shard in list(self._shards):
            for group in list(shard.groups.values()):
                if isinstance(group, ShareGroup):
                    yield group.state_name

    def committed(self) -> Iterator[tuple[str, str, int, int] | None]:
        """Yield group, topic, partition and offset of all committed offsets on this node.

        The groups may change during the iteration. A None marks a point at which the caller may pause.
        """
        for shard in list(self._shards):
            for group_id in list(shard.offsets.by_group):
                for key, value in list(shard.offsets.all_of(group_id)):
                    yield group_id, key.topic, key.partition, value.offset
                yield None

    async def loaded(self, group_id: str) -> None:
        """Wait until the group's shard is loaded, if this node is loading it."""
        await self._shards.loaded(group_id)

    @property
    def serves_consumer_protocol(self) -> bool:
        protocols = self._current_settings().words("group.coordinator.rebalance.protocols")
        return CONSUMER_PROTOCOL in protocols and self._image.features.get(GROUP_VERSION, 0) >= 1

    def close(self) -> None:
        """Unload all shards; waiting requests are answered with NOT_COORDINATOR, which clients retry."""
        for task in (*self._cleanups, *self._initializations, *self._assignments):
            task.cancel()
        self._shards.close()

    # -- actions of shards -----------------------------------------------------------------

    def perform(self, index: int, action: Any) -> None:
        """Start an action of a shard; its result returns to the shard as a command."""
        if isinstance(action, AssignTarget):
            assignment = asyncio.ensure_future(self._assign(index, action))
            self._assignments[assignment] = index
            assignment.add_done_callback(lambda done: self._assignments.pop(done, None))
            return
        assert isinstance(action, InitializeShareState)
        task = asyncio.ensure_future(self._initialize(index, action))
        self._initializations[task] = index, action.group_id
        task.add_done_callback(lambda done: self._initializations.pop(done, None))

    def abandon(self, index: int) -> None:
        for task, (shard, _) in list(self._initializations.items()):
            if shard == index:
                task.cancel()
        for task, shard in list(self._assignments.items()):
            if shard == index:
                task.cancel()

    async def _assign(self, index: int, action: AssignTarget) -> None:
        """Compute the target of a large group and write it, each part when the one before it is committed."""
        try:
            for part in await self._pace.finish(lambda: assigning(action)):
                if not await self._shards.submit_to(index, part):
                    return
        except Exception as error:
            if isinstance(error, Refusal):
                log.info("cannot write the target assignment of group %s yet: %s", action.group_id, error)
            else:
                log.exception("cannot compute the target assignment of group %s", action.group_id)
            with suppress(Refusal):
                await self._shards.submit_to(index, AssignmentFailed(action.group_id, action.epoch))

    # -- share groups ----------------------------------------------------------------------

    async def _initialize(self, index: int, action: InitializeShareState) -> None:
        initialized = await self._initialize_share_state(action)
        if not initialized:
            return
        try:
            await self._shards.submit_to(index, ShareStateInitialized(action.group_id, initialized))
        except Refusal as refusal:
            # The timer of the shard repeats it.
            log.info("cannot record the initialized share partitions of group %s yet: %s", action.group_id, refusal)

    async def share_state_initialized(self, group_id: str, timeout_s: float) -> bool:
        """Wait until the state of a share group is initialized; return whether an initialization has ended in time."""
        tasks = [task for task, (_, group) in self._initializations.items() if group == group_id]
        if not tasks:
            return True
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_s, lambda: None if ended.done() else ended.set_result(None))
        try:
            await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        return any(task.done() for task in tasks)

    # -- image changes -----------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        is_first = self._image is EMPTY
        self._image = image
        self._follow_settings(delta)
        topics = Topics.of(image) if is_first else self._topics.renewed(delta, image)
        if topics is not self._topics:
            self._topics = topics
            for shard in self._shards:
                shard.consumers.topics = shard.shares.topics = topics
        for index in self._shards.image_changed(delta, image):
            self._start_cleanup(index)
        if delta.topics_deleted:
            self._delete_offsets_of(delta.topics_deleted)

    def _start_cleanup(self, index: int) -> None:
        task = asyncio.ensure_future(self._delete_orphaned_offsets(index))
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)

    def _follow_settings(self, delta: Delta) -> None:
        kinds = {resource.type for resource in delta.configs_changed}
        if kinds & {BROKER, GROUP}:
            self._settings_of.clear()
            self._share_settings_of.clear()
        if BROKER in kinds:
            self._settings = group_settings(self._current_settings())
            for shard in self._shards:
                shard.settings = self._settings

    def _consumer_settings(self, group_id: str) -> ConsumerSettings:
        settings = self._settings_of.get(group_id)
        if settings is None:
            if len(self._settings_of) >= _SETTINGS_KEPT:
                self._settings_of.clear()
            own = self._image.config(ConfigResource(GROUP, group_id))
            settings = self._settings_of[group_id] = consumer_settings(self._current_settings(), own)
        return settings

    def _share_settings(self, group_id: str) -> ShareGroupSettings:
        settings = self._share_settings_of.get(group_id)
        if settings is None:
            if len(self._share_settings_of) >= _SETTINGS_KEPT:
                self._share_settings_of.clear()
            own = self._image.config(ConfigResource(GROUP, group_id))
            settings = self._share_settings_of[group_id] = share_group_settings(self._current_settings(), own)
        return settings

    def _make_shard(self) -> GroupShard:
        return GroupShard(
            self._settings,
            settings_of=self._consumer_settings,
            share_settings_of=self._share_settings,
            topics=self._topics,
        )

    # -- deleted topics --------------------------------------------------------------------

    async def _delete_orphaned_offsets(self, index: int) -> None:
        """Delete the offsets, and share groups' state, of topics that were deleted while there was no coordinator.

        Runs after a load. The image is at least as new as that of any earlier leader, so a topic missing
        from it is deleted.
        """
        await self._shards.partition_loaded(index)
        shard = self._shards.get(index)
        if shard is None:
            return
        names, ids = self._image.topics, self._image.topics_by_id
        deleted = dict.fromkeys(
            (key.topic, value.topic_id)
            for key, values in shard.offsets.all_values()
            for value in values
            if (value.topic_id not in ids if value.topic_id.int else key.topic not in names)
        )
        # Share groups know topics by their ids only, and no offset has an empty topic name.
        deleted |= dict.fromkeys(("", topic_id) for topic_id in shard.shares.topics_with_state() if topic_id not in ids)
        if deleted:
            self._submit_cleanup(index, ForgetTopics(tuple(deleted)))

    def _delete_offsets_of(self, topics: Iterable[TopicImage]) -> None:
        command = ForgetTopics(tuple((topic.name, topic.id) for topic in topics))
        for index in list(self._shards.epochs):
            self._submit_cleanup(index, command)

    def _submit_cleanup(self, index: int, command: ForgetTopics) -> None:
        try:
            future = self._shards.submit_to(index, command)
        except Refusal:
            # Still loading: the cleanup that follows the load deletes these offsets too.
            return
        future.add_done_callback(_log_failure)


def _log_failure(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("cannot delete the offsets of deleted topics, they stay until the next load: %s", error)
