"""The groups that this node coordinates: one shard for each partition of `__consumer_offsets` that it leads.

Finds the shard of a group, and follows the metadata image: takes over and gives up shards as
leaders change, and tells them of topics, of deleted ones, and of settings. Calls go to
coordinator/runtime.py. Refuses: NotCoordinator for groups of other nodes, CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.config.settings import BrokerSettings
from penstock.controller.features import GROUP_VERSION
from penstock.coordinator.decision import TransactionEnd
from penstock.coordinator.runtime import CoordinatorRuntime, answer_of
from penstock.coordinator.shared import Done
from penstock.groups.commands import ForgetTopics, ListedGroup, ListGroups, OffsetCommit
from penstock.groups.configured import consumer_settings, group_settings
from penstock.groups.consumer.commands import ConsumerSettings
from penstock.groups.consumer.topics import Topics
from penstock.groups.member_memory import MemberMemory
from penstock.groups.shard import GroupShard
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, EMPTY, GROUP, ConfigResource, Image, TopicImage
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, PartitionIndex, TopicPartition
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
from penstock.storage.verification_guard import VerificationGuard

log = logging.getLogger(__name__)

CONSUMER_PROTOCOL = "consumer"
_SETTINGS_KEPT = 1 << 14


class Groups:
    def __init__(
        self,
        *,
        node_id: NodeId,
        replicas: Replicas,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
    ) -> None:
        self._current_settings = current_settings
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
        )
        self._clock = clock
        self._member_memory = MemberMemory(lambda: sum(shard.metadata_size for shard in self._shards))
        self._settling: set[asyncio.Task[None]] = set()
        self._shards.on_taken = self._start_settling

    def admit_member(self, metadata_size: int) -> None:
        """Raise CoordinatorNotAvailable if there is no memory for what a member of a classic group sends."""
        budget = self._current_settings().integer("group.metadata.memory.max.bytes")
        self._member_memory.take(metadata_size, budget=budget, now=self._clock.monotonic())

    # -- commands --------------------------------------------------------------------------

    def submit(self, group_id: str, command: Any) -> "asyncio.Future[Any]":
        """Run a command about a group; the future has its reply. Raises at once if the group is not served here."""
        return self._shards.submit(group_id, command)

    async def ask(self, group_id: str, command: Any) -> Any:
        """The reply to a command about a group. Raises a Refusal if there is none."""
        return await answer_of(self.submit(group_id, command), command)

    def commit(self, command: OffsetCommit, done: Done) -> None:
        """Commit offsets; `done` gets an OffsetCommitReply, or a Refusal, once they are in the log to stay.

        Raises a Refusal at once if the group is not served here.
        """
        self._shards.share(command.group_id, command, done)

    # -- transactions ----------------------------------------------------------------------

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """The partition that belongs to a transaction in which the group's offsets are committed."""
        return TopicPartition(CONSUMER_OFFSETS, PartitionIndex(self._shards.index_of(group_id)))

    def begin_verification(self, group_id: str, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        """Call before the transaction coordinator is asked about a TxnOffsetCommit, and give the result to that.

        None: the transaction is open in the group's partition already, and nobody has to be asked.
        """
        index = self.offsets_partition(group_id).partition
        return self._shards.begin_verification(index, producer_id, producer_epoch)

    def end_transaction(self, index: int, end: TransactionEnd) -> "asyncio.Future[None]":
        """Write a marker to a partition of `__consumer_offsets`; done when it is committed and its offsets count.

        The marker is appended before this returns, or never. Raises at once, or later by the future, a Refusal:
        InvalidProducerEpoch, TransactionCoordinatorFenced, and what every coordinator refuses, which is
        to be tried again; a marker that is written twice ends nothing the second time.
        """
        return self._shards.end_transaction(index, end)

    # -- many groups -----------------------------------------------------------------------

    async def list_groups(self, command: ListGroups) -> list[ListedGroup]:
        """The groups of all shards here."""
        return await self._shards.ask_all(command)

    @property
    def count(self) -> int:
        """How many groups there are in all shards here."""
        return sum(len(shard.groups) for shard in self._shards)

    def committed(self) -> Iterator[tuple[str, str, int, int] | None]:
        """Group, topic, partition and offset of all that is committed here.

        Holds also if the groups change before the last of it is taken; None is a good moment for a pause.
        """
        for shard in list(self._shards):
            for group_id in list(shard.offsets.by_group):
                for key, value in list(shard.offsets.all_of(group_id)):
                    yield group_id, key.topic, key.partition, value.offset
                yield None

    async def loaded(self, group_id: str) -> None:
        """Wait until the group's shard has been read, if it is being read here."""
        await self._shards.loaded(group_id)

    @property
    def serves_consumer_protocol(self) -> bool:
        protocols = self._current_settings().words("group.coordinator.rebalance.protocols")
        return CONSUMER_PROTOCOL in protocols and self._image.features.get(GROUP_VERSION, 0) >= 1

    def close(self) -> None:
        """Let go of everything; whoever waits is answered NOT_COORDINATOR and finds us again after a restart."""
        for task in self._settling:
            task.cancel()
        self._shards.close()

    # -- the image changes -----------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        is_first = self._image is EMPTY
        self._image = image
        self._follow_settings(delta)
        topics = Topics.of(image) if is_first else self._topics.renewed(delta, image)
        if topics is not self._topics:
            self._topics = topics
            for shard in self._shards:
                shard.consumers.topics = topics
        for index in self._shards.image_changed(delta, image):
            self._start_settling(index)
        if delta.topics_deleted:
            self._forget(delta.topics_deleted)

    def _start_settling(self, index: int) -> None:
        task = asyncio.ensure_future(self._settle(index))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    def _follow_settings(self, delta: Delta) -> None:
        kinds = {resource.type for resource in delta.configs_changed}
        if kinds & {BROKER, GROUP}:
            self._settings_of.clear()
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

    def _make_shard(self) -> GroupShard:
        return GroupShard(self._settings, settings_of=self._consumer_settings, topics=self._topics)

    # -- deleted topics --------------------------------------------------------------------

    async def _settle(self, index: int) -> None:
        """After a load, forget the offsets of topics that were deleted while nobody was there to do it.

        The image is at least as new as that of any leader before, so a topic that it lacks is gone.
        """
        await self._shards.partition_loaded(index)
        shard = self._shards.get(index)
        if shard is None:
            return
        names, ids = self._image.topics, self._image.topics_by_id
        gone = dict.fromkeys(
            (key.topic, value.topic_id)
            for key, values in shard.offsets.everything()
            for value in values
            if (value.topic_id not in ids if value.topic_id.int else key.topic not in names)
        )
        if gone:
            self._run_quietly(index, ForgetTopics(tuple(gone)))

    def _forget(self, topics: Iterable[TopicImage]) -> None:
        command = ForgetTopics(tuple((topic.name, topic.id) for topic in topics))
        for index in list(self._shards.epochs):
            self._run_quietly(index, command)

    def _run_quietly(self, index: int, command: ForgetTopics) -> None:
        try:
            future = self._shards.submit_to(index, command)
        except Refusal:
            # Being loaded: what is to be done will be seen at the end of that.
            return
        future.add_done_callback(_look)


def _look(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("offsets of deleted topics are kept until the next start: %s", error)
