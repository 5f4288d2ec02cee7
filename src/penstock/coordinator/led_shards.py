"""The shards of one internal topic that this node leads, found by key; follows the metadata image.

Takes shards over and gives them up as leaders change. What groups and transactions have in
common stands here; what their shards are told of the image is theirs. Calls go to runtime.py.
Refuses: NotCoordinator for keys of other nodes, CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from penstock.coordinator.decision import Performer
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.coordinator.keys import partition_of
from penstock.coordinator.partition_log import PartitionLog
from penstock.coordinator.runtime import Coordinator
from penstock.coordinator.shard import Shard
from penstock.coordinator.shared import Done
from penstock.metadata.delta import Delta
from penstock.metadata.image import Image
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, TopicName
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard[Any])


class LedShards(Generic[S]):
    def __init__(
        self,
        topic: TopicName,
        *,
        node_id: NodeId,
        replicas: Replicas,
        clock: Clock,
        make_shard: Callable[[], S],
        commit_timeout_ms: Callable[[], int],
        performer: Performer | None = None,
    ) -> None:
        self._topic = topic
        self._node_id = node_id
        self._replicas = replicas
        self._clock = clock
        self._make_shard = make_shard
        self._commit_timeout_ms = commit_timeout_ms
        self.runtime: Coordinator[Any] = Coordinator(self._make, clock, performer)
        self.partition_count = 0
        self.epochs: dict[int, int] = {}
        """The partitions that this node leads, and in which leader epoch."""
        self._shards: dict[int, S] = {}
        """Also those that are being loaded: they must not miss what changes meanwhile."""
        self.on_taken: Callable[[int], None] = lambda index: None
        """Called for a shard that is loaded later than the image asked for it."""
        replicas.opened_late.append(self._opened_late)

    def __iter__(self) -> Iterator[S]:
        return iter(self._shards.values())

    def get(self, index: int) -> S | None:
        return self._shards.get(index)

    def index_of(self, key: str) -> int:
        if not self.partition_count:
            raise NotCoordinator
        return partition_of(key, self.partition_count)

    def _served_index(self, key: str) -> int:
        """Return the partition of a key. Refuses with a retriable error while this node opens the log that it leads."""
        index = self.index_of(key)
        if index not in self.epochs and self._replicas.is_opening(self._topic, index):
            state = self._replicas.image.partition(self._topic, index)
            if state is not None and state.leader == self._node_id:
                raise CoordinatorLoadInProgress
        return index

    # -- commands --------------------------------------------------------------------------

    def submit(self, key: str, command: Any) -> "asyncio.Future[Any]":
        """Run a command about a key; the future has its reply. Raises at once if the key is not served here."""
        return self.runtime.submit(self._served_index(key), command)

    def share(self, key: str, command: Any, done: Done) -> None:
        """Run a command that may be written with others; see `Coordinator.share`."""
        self.runtime.share(self._served_index(key), command, done)

    async def ask_all(self, command: Any) -> list[Any]:
        """The joined replies of all shards here, each a list. Refuses while one of them is loaded."""
        futures = []
        for index in self.epochs:
            try:
                futures.append(self.runtime.submit(index, command))
            except NotCoordinator:
                continue
        found: list[Any] = []
        for answer in await asyncio.gather(*futures, return_exceptions=True):
            if not isinstance(answer, BaseException):
                found += answer
            elif not isinstance(answer, NotCoordinator):
                raise answer
        return found

    async def loaded(self, key: str) -> None:
        """Wait until the key's shard has been read, if it is being read here."""
        if self.partition_count:
            await self.runtime.loaded(self.index_of(key))

    def close(self) -> None:
        """Let go of everything; whoever waits is answered NOT_COORDINATOR."""
        self.epochs.clear()
        self.runtime.close()

    # -- leaders ---------------------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> list[int]:
        """Follow the leaders of the topic's partitions; returns those that are loaded from now on."""
        if any(topic.name == self._topic for topic in delta.topics_deleted):
            for index in list(self.epochs):
                self._resign(index)
        topic = image.topics.get(self._topic)
        self.partition_count = 0 if topic is None else len(topic.partitions)
        if topic is None:
            return []
        taken: list[int] = []
        for index in sorted(delta.partitions_changed.get(topic.id, ())):
            state = topic.partitions[index]
            if state.leader != self._node_id:
                self._resign(index)
            # A new epoch may mean that another node has led in between.
            elif self.epochs.get(index) != state.leader_epoch and self._lead(index, state.leader_epoch):
                taken.append(index)
        return taken

    def _make(self, index: int) -> S:
        shard = self._shards[index] = self._make_shard()
        return shard

    def _lead(self, index: int, leader_epoch: int) -> bool:
        partition = self._replicas.find(self._topic, index)
        if partition is None:
            if not self._replicas.is_opening(self._topic, index):
                log.error("cannot coordinate %s-%d: its log is offline", self._topic, index)
            return False
        self.epochs[index] = leader_epoch
        self.runtime.lead(index, PartitionLog(partition, self._clock, self._commit_timeout_ms))
        return True

    def _opened_late(self, topic: TopicName, index: int) -> None:
        state = self._replicas.image.partition(topic, index)
        if topic != self._topic or state is None or state.leader != self._node_id:
            return
        if self.epochs.get(index) != state.leader_epoch and self._lead(index, state.leader_epoch):
            self.on_taken(index)

    def _resign(self, index: int) -> None:
        self.runtime.resign(index)
        self.epochs.pop(index, None)
        self._shards.pop(index, None)


async def answer_of(reply: "asyncio.Future[Any]", command: Any) -> Any:
    """The reply, or a Refusal. One key's trouble, which is logged where it happened, must not cost a connection."""
    try:
        return await reply
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"{type(command).__name__} failed") from error
