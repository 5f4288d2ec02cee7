"""The coordinators of one internal topic on this node: a shard for each partition that it leads.

Finds the shard of a key, starts and stops shards as leaders change in the metadata image, and runs commands on them.
The common part of groups and transactions, which apply other changes of the image to their shards themselves.
Calls go to shard_runner.py. Refuses: NotCoordinator for keys of other nodes, CoordinatorLoadInProgress.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.coordinator.decision import Performer, TransactionEnd
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.coordinator.keys import partition_of
from penstock.coordinator.partition_log import PartitionLog
from penstock.coordinator.shard import Shard, ShardLog
from penstock.coordinator.shard_runner import ShardRunner
from penstock.coordinator.shared import Done, SharedTurn
from penstock.metadata.delta import Delta
from penstock.metadata.image import Image
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, TopicName
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
from penstock.storage.verification_guard import VerificationGuard

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard[Any])


class CoordinatorRuntime(Generic[S]):
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
        self._performer = performer
        self.partition_count = 0
        self.epochs: dict[int, int] = {}
        """The partitions that this node leads, with their leader epochs."""
        self._runners: dict[int, ShardRunner[Any]] = {}
        self._shards: dict[int, S] = {}
        """Includes shards that are loading, which must not miss changes of settings or topics."""
        self._turn = SharedTurn()
        self.on_taken: Callable[[int], None] = lambda index: None
        """Called with the partition of a shard that loads after `image_changed`, when its log was still opening."""
        replicas.on_late_open.append(self._log_opened)

    def __iter__(self) -> Iterator[S]:
        return iter(self._shards.values())

    def get(self, index: int) -> S | None:
        return self._shards.get(index)

    def index_of(self, key: str) -> int:
        if not self.partition_count:
            raise NotCoordinator
        return partition_of(key, self.partition_count)

    def _runner_of(self, key: str) -> ShardRunner[Any]:
        """Return the runner of a key, or raise a retriable error while this node opens the log."""
        if not self._replicas.has_lease():
            # The coordinator may be another node by now, and what this one has in memory may be outdated.
            raise NotCoordinator
        index = self.index_of(key)
        self._check_open(index)
        return self._runner(index)

    def _check_open(self, index: int) -> None:
        """Raise CoordinatorLoadInProgress while this node, the leader of the partition, opens its log."""
        if index not in self.epochs and self._replicas.is_opening(self._topic, index):
            state = self._replicas.image.partition(self._topic, index)
            if state is not None and state.leader == self._node_id:
                raise CoordinatorLoadInProgress

    def _runner(self, index: int) -> ShardRunner[Any]:
        runner = self._runners.get(index)
        if runner is None:
            raise NotCoordinator
        return runner

    # -- commands about a key --------------------------------------------------------------

    def submit(self, key: str, command: Any) -> "asyncio.Future[Any]":
        """Submit a command and return a future of its reply. Raises if this node does not coordinate the key."""
        return self._runner_of(key).submit(command)

    def share(self, key: str, command: Any, done: Done) -> None:
        """Run a command whose records may share a batch with those of other commands.

        `done` receives the reply, maybe before this returns. Raises if this node does not coordinate the key.
        """
        runner = self._runner_of(key)
        if not runner.share(command, done):
            runner.submit(command).add_done_callback(partial(_pass_result, done))

    async def loaded(self, key: str) -> None:
        """Wait until the key's shard is loaded, if this node is loading it."""
        if self.partition_count:
            await self.partition_loaded(self.index_of(key))

    # -- commands to a partition -----------------------------------------------------------

    def submit_to(self, index: int, command: Any) -> "asyncio.Future[Any]":
        """Submit a command and return a future of its reply. Raises if this node does not lead the partition."""
        return self._runner(index).submit(command)

    def end_transaction(self, index: int, end: TransactionEnd) -> "asyncio.Future[None]":
        """Append a marker and return a future that is done when it is committed. Raises if not led by this node."""
        return self._runner(index).end_transaction(end)

    def begin_verification(self, index: int, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        """Begin a verification before the transaction coordinator is asked; None if the transaction is open here."""
        return self._runner(index).begin_verification(producer_id, producer_epoch)

    async def ask_all(self, command: Any) -> list[Any]:
        """Return the concatenated replies of all shards. Raises a Refusal while one of them is loading."""
        for index in range(self.partition_count):
            self._check_open(index)
        futures = []
        for index in self.epochs:
            try:
                futures.append(self.submit_to(index, command))
            except NotCoordinator:
                continue
        found: list[Any] = []
        for answer in await asyncio.gather(*futures, return_exceptions=True):
            if not isinstance(answer, BaseException):
                found += answer
            elif not isinstance(answer, NotCoordinator):
                raise answer
        return found

    def trim(self, index: int, offset: int) -> None:
        """Delete the records below an offset of a partition that this node leads, as far as they are committed."""
        partition = self._replicas.find(self._topic, index)
        if partition is not None and partition.is_leader:
            offset = min(offset, partition.high_watermark)
            if offset > partition.log.start_offset:
                partition.delete_before(offset)

    def active(self) -> Iterator[tuple[int, Shard[Any]]]:
        """Yield the loaded shards, to read them or to change their settings."""
        for index, runner in list(self._runners.items()):
            if runner.is_active:
                yield index, runner.shard

    async def partition_loaded(self, index: int) -> None:
        """Wait until the load of the partition has ended, successfully or not."""
        runner = self._runners.get(index)
        if runner is not None:
            await runner.loaded()

    # -- leaders ---------------------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> list[int]:
        """Follow the leaders of the topic's partitions; return the partitions that start to load."""
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
            # With a new epoch another node may have been the leader in between.
            elif self.epochs.get(index) != state.leader_epoch and self._take(index, state.leader_epoch):
                taken.append(index)
        return taken

    def _log_opened(self, topic: TopicName, index: int) -> None:
        if not self.partition_count:
            # The first image has not arrived, which takes all partitions that the node leads. A shard that is taken
            # earlier would miss the topics of that image, and the offsets of all topics would count as orphaned.
            return
        state = self._replicas.image.partition(topic, index)
        if topic != self._topic or state is None or state.leader != self._node_id:
            return
        if self.epochs.get(index) != state.leader_epoch and self._take(index, state.leader_epoch):
            self.on_taken(index)

    def _take(self, index: int, leader_epoch: int) -> bool:
        partition = self._replicas.find(self._topic, index)
        if partition is None:
            if not self._replicas.is_opening(self._topic, index):
                log.error("cannot coordinate %s-%d: its log is offline", self._topic, index)
            return False
        self.epochs[index] = leader_epoch
        self.lead(index, PartitionLog(partition, self._clock, self._commit_timeout_ms))
        return True

    def lead(self, index: int, shard_log: ShardLog) -> None:
        """Load the shard of a partition that this node has become the leader of."""
        self._stop_runner(index)
        self._runners[index] = ShardRunner(
            index, partial(self._new_shard, index), shard_log, self._clock, self._performer, self._turn
        )

    def _new_shard(self, index: int) -> S:
        shard = self._shards[index] = self._make_shard()
        return shard

    def _resign(self, index: int) -> None:
        """Unload a shard and fail its waiting requests, whose clients then look up the new coordinator."""
        self._stop_runner(index)
        self.epochs.pop(index, None)
        self._shards.pop(index, None)

    def _stop_runner(self, index: int) -> None:
        runner = self._runners.pop(index, None)
        if runner is not None:
            runner.stop()

    def close(self) -> None:
        """Stop all shards; their waiting requests are answered with NOT_COORDINATOR."""
        self.epochs.clear()
        for index in list(self._runners):
            self._stop_runner(index)


def _pass_result(done: Done, future: "asyncio.Future[Any]") -> None:
    error = NotCoordinator() if future.cancelled() else future.exception()
    if error is None:
        done(future.result(), None)
    else:
        done(None, error if isinstance(error, Refusal) else Refusal(f"failed: {error!r}"))


async def answer_of(reply: "asyncio.Future[Any]", command: Any) -> Any:
    """Return the reply or raise a Refusal: an unexpected error, which is logged, must not close the connection."""
    try:
        return await reply
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"{type(command).__name__} failed") from error
