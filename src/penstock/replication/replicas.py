"""All partitions on this node, by topic name and topic id.

Subscribes to the metadata image: creates, opens and deletes logs, gives each partition its role, and passes on changed
settings. Files are created and removed in slices, so that a topic with ten thousand partitions does not block the
event loop; `settled` waits for the last slice. A start opens many logs in the background (`opened_at_start`).
cluster_peers.py serves partitions with other replicas. Calls partition.py and storage/store.py.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from math import inf
from typing import Final, NamedTuple
from uuid import UUID

from penstock.client.channel import pause
from penstock.config.settings import BrokerSettings, TopicSettings, topic_settings
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, EMPTY, TOPIC, Image, PartitionImage, TopicImage
from penstock.model.errors import Corruption, NotLeaderOrFollower, StorageError, UnknownTopicOrPartition
from penstock.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from penstock.model.job import Job, finish
from penstock.model.topic import is_internal
from penstock.ports.clock import Clock, Timer
from penstock.replication.cluster_peers import ClusterPeers, PeerAccess
from penstock.replication.follower_sessions import FollowerSessions, Wakeups
from penstock.replication.hosted_topic import HostedTopic
from penstock.replication.late_logs import LateLogs
from penstock.replication.mark_checkpoints import MarkCheckpoints
from penstock.replication.partition import Partition
from penstock.replication.rounds import LeaderRounds
from penstock.replication.throttle import LEADER, Throttle
from penstock.replication.waiting import ProduceDeadlines
from penstock.storage.directory import UNOPENABLE
from penstock.storage.log import Log
from penstock.storage.reserve import is_disk_full
from penstock.storage.store import LogStore

log = logging.getLogger(__name__)

SWEEP_S: Final = 0.5
SLICE_S: Final = 0.002
"""How long chores run in one turn of the event loop: opening a log takes milliseconds."""
CHORES_PER_SLICE: Final = 64
"""Each chore creates a few files or renames one; together they take about as long as a large fetch."""
FEW_CHORES: Final = 500
"""With more of them, the chores of a deleted topic are listed when it is their turn."""
START_OPEN_S: Final = 0.25
"""A start waits this long for logs that may be opened late: for hundreds. The rest is opened in the background."""
UNREADABLE_S: Final = 2.0
"""A log that cannot be read for this long counts as damaged; a disk may fail for a moment."""
REOPEN_S: Final = 5.0
REOPEN_S_MAX: Final = 300.0


class _NextAttempt(NamedTuple):
    """When to open an unreadable log again, and the pause since the previous attempt."""

    at: float
    pause_s: float


class Replicas:
    """The partitions of this node, kept in step with the metadata image."""

    def __init__(
        self,
        node_id: NodeId,
        store: LogStore,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
        peer_access: PeerAccess | None = None,
    ) -> None:
        """Create an empty set. Without `peer_access` there are no other nodes: every partition has one replica."""
        self._node_id = node_id
        self._store = store
        self._clock = clock
        self._current_settings = current_settings
        self.by_name: dict[bytes, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.wakeups = Wakeups(clock)
        self.follower_sessions = FollowerSessions(self.wakeups)
        self.leader_throttle = Throttle(LEADER, clock.monotonic, current_settings())
        self.has_lease = peer_access.has_lease if peer_access is not None else lambda: True
        self._peers: ClusterPeers | None = None
        if peer_access is not None:
            self._peers = ClusterPeers(
                peer_access, node_id=node_id, store=store, clock=clock, settings=current_settings, replicas=self
            )
        self._image = EMPTY
        self._marks = MarkCheckpoints(store, self)
        self._produce_deadlines = ProduceDeadlines()
        self._leader_rounds = LeaderRounds(clock)
        self._chores: deque[Callable[[], None]] = deque()
        self._chores_timer: Timer | None = None
        self.late = LateLogs(node_id, store, clock, self._opening, self._opened, self._run_slice, self._topic_settings)
        """Logs that are opened after all chores, unless they are used before."""
        self._on_all_open: Callable[[], None] | None = None
        self._sweep_timer: Timer | None = None
        self._lag_check_at = self._checkpoint_at = 0.0
        self._publishing: Mapping[UUID, Collection[int]] | None = None
        """The partitions that the image changes of which subscribers are being notified; None between images."""
        self._unopened: dict[tuple[HostedTopic, int], float | None] = {}
        """Logs that could not be opened or created and will be tried again, with the time since when they are
        unreadable; None if the disk is full or the process lacks a resource."""
        self._provisional: dict[tuple[HostedTopic, int], _NextAttempt] = {}
        """Unreadable logs that were opened as damaged, and when to try again."""
        self.on_late_open: list[Callable[[TopicName, int], None]] = []
        """Called for logs that are opened after the image was published: its subscribers did not find them."""

    def start(self) -> None:
        self._sweep_timer = self._clock.call_later(SWEEP_S, self._sweep)

    def stop(self) -> None:
        """Stop fetching and write the high watermarks, before the logs are closed."""
        for timer in (self._sweep_timer, self._chores_timer):
            if timer is not None:
                timer.cancel()
        self.wakeups.stop()
        self._leader_rounds.stop()
        if self._unopened or self._provisional:
            self._store.leave_unopened()
        self._unopened.clear()
        self._provisional.clear()
        if self._peers is not None:
            self._peers.close()
        while self._chores:
            self._run_chores(len(self._chores))
        self.late.leave()
        self._on_all_open = None
        self._marks.checkpoint()

    async def settled(self) -> None:
        """Wait until all logs of the image are open and all others are deleted."""
        while self._chores:
            self._run_slice()
            await asyncio.sleep(0)
        while self._has_unreadable:
            # After UNREADABLE_S they count as damaged. Until then this node must not become their leader.
            await pause(self._clock, SWEEP_S)
            self._retry_open()

    @property
    def _has_unreadable(self) -> bool:
        """Return whether it is not known yet what is left of some log."""
        return any(since is not None for since in self._unopened.values())

    async def opened_at_start(self, on_all_open: Callable[[], None]) -> None:
        """Wait until the node may serve its partitions; call back when the logs that are left are open as well.

        Those that `may_open_late` excludes are always waited for.
        """
        await self.settled()
        self.late.is_starting = False
        self._on_all_open = on_all_open
        ends = self._clock.monotonic() + START_OPEN_S
        while self.late.has_next and self._clock.monotonic() < ends:
            self._open_late_logs(within_s=SLICE_S)
            await asyncio.sleep(0)
        if self.late:
            log.info("opening %d logs in the background", len(self.late))
        else:
            await self.settled()
        self._open_late_logs(within_s=0)
        self._schedule_chores()

    async def wait_losses_reported(self) -> None:
        """Wait until the controller knows which replicas are damaged on this node, and has moved their leadership."""
        if self._peers is not None:
            await self._peers.wait_losses_reported()

    def find(self, name: TopicName, index: int) -> Partition | None:
        topic = self.by_name.get(name.encode())
        return None if topic is None else topic.partitions.get(index)

    @property
    def replication_bytes_in(self) -> int:
        """Return how many bytes were fetched from leaders."""
        return 0 if self._peers is None else self._peers.follower_throttle.passed

    @property
    def isr_changes_refused(self) -> int:
        """Return how many ISR proposals of this broker the controller has rejected."""
        return 0 if self._peers is None else self._peers.isr_changes_refused

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark of a partition; 0, so that nothing is deleted, if it is not served here."""
        partition = self.find(topic_partition.topic, topic_partition.partition)
        return 0 if partition is None else partition.high_watermark

    def last_stable_offset(self, topic_partition: TopicPartition) -> int:
        """Return the offset below which every transaction of a partition has ended; 0 if it is not served here."""
        partition = self.find(topic_partition.topic, topic_partition.partition)
        return 0 if partition is None else partition.last_stable_offset

    def all(self) -> Iterator[Partition]:
        for topic in self.by_name.values():
            yield from topic.partitions.values()

    @property
    def image(self) -> Image:
        return self._image

    # -- metadata changes ------------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        self._image = image
        self._publishing = delta.partitions_changed
        for topic in delta.topics_deleted:
            self._delete_topic(topic)
        configured = self._apply_settings(delta)
        for topic in (*delta.topics_created, *delta.topics_changed):
            for index in sorted(delta.partitions_changed.get(topic.id, ())):
                self._apply_partition(topic, index)
        for hosted in configured:
            hosted.settings_changed()
        if delta.brokers_changed and self._peers is not None:
            self._peers.brokers_changed(image)
            # Followers that could not join an ISR may be able to now.
            self._leader_rounds.begin(Partition.maybe_expand_isr, self.all())
        self._run_chores(CHORES_PER_SLICE, within_s=SLICE_S)
        self._publishing = None
        self._schedule_chores()

    def _apply_settings(self, delta: Delta) -> list[HostedTopic]:
        if any(resource.type == BROKER for resource in delta.configs_changed):
            configured = list(self.by_name.values())
            self.leader_throttle.configure(self._current_settings())
            if self._peers is not None:
                self._peers.follower_throttle.configure(self._current_settings())
        else:
            names = [resource.name.encode() for resource in delta.configs_changed if resource.type == TOPIC]
            configured = [self.by_name[name] for name in names if name in self.by_name]
        for hosted in configured:
            hosted.apply_settings(self._topic_settings(hosted.name))
        return configured

    def _topic_settings(self, name: TopicName) -> TopicSettings:
        return topic_settings(self._current_settings(), self._image.topic_config(name))

    def _apply_partition(self, topic: TopicImage, index: int) -> None:
        state = topic.partitions[index]
        hosted = self.by_id.get(topic.id.bytes)
        if self._node_id not in state.replicas:
            if hosted is not None:
                self._chores.append(partial(self._remove_replica, hosted, index))
            return
        if hosted is None:
            hosted = HostedTopic(topic.name, topic.id)
            self.by_id[hosted.id_bytes] = self.by_name[hosted.name_bytes] = hosted
        if index in hosted.partitions:
            self._take_role(hosted.partitions[index], state)
        elif not self.late.takes(hosted, index, state):
            self._chores.append(partial(self._open_unless_late, hosted, index))

    def _take_role(self, partition: Partition, state: PartitionImage) -> None:
        partition.take_role(state)
        if self._peers is not None:
            self._peers.take_role(partition, state)

    def _open_late_logs(self, *, within_s: float) -> None:
        """Open some of the logs that are left, oldest chores first: a log may need the removal of another."""
        self.late.open_some(within_s=within_s, may_open=lambda: not self._chores)
        if self._on_all_open is not None and not (self.late or self._unopened or self._store.failure):
            on_all_open, self._on_all_open = self._on_all_open, None
            on_all_open()

    def _open_unless_late(self, hosted: HostedTopic, index: int) -> None:
        """Open a log, unless a newer image shows that it may be opened late: the first one of a start may be old."""
        topic = self._image.topics_by_id.get(hosted.id)
        if topic is not None and not self.late.takes(hosted, index, topic.partitions[index]):
            self._open(hosted, index)

    def _open(self, hosted: HostedTopic, index: int) -> None:
        if (opening := self._opening(hosted, index)) is not None:
            self._opened(hosted, index, partial(finish, opening))

    def _opening(self, hosted: HostedTopic, index: int) -> Job[Log] | None:
        """Return the job that opens the log of a partition; None if that is done, or no longer wanted."""
        topic = self._image.topics_by_id.get(hosted.id)
        if topic is None or index in hosted.partitions or self._node_id not in topic.partitions[index].replicas:
            return None
        if self.by_id.get(hosted.id_bytes) is not hosted:
            # All replicas of the topic left this node. One has returned since, and is opened by a later chore.
            return None
        topic_partition = TopicPartition(hosted.name, PartitionIndex(index))
        return self._store.opening(topic_partition, hosted.id, self._topic_settings(hosted.name))

    def _opened(self, hosted: HostedTopic, index: int, outcome: Callable[[], Log]) -> None:
        """Serve a partition with the log that an attempt to open it has returned, or handle its error."""
        topic_partition = TopicPartition(hosted.name, PartitionIndex(index))
        try:
            opened = outcome()
        except Corruption as error:
            log.error("partition %s is offline: %s", topic_partition, error)
            return
        except (OSError, StorageError) as error:
            unreadable = self._open_failed(hosted, index, error)
            if unreadable is None:
                return
            opened = unreadable
        state = self._image.topics_by_id[hosted.id].partitions[index]
        partition = hosted.partitions[index] = Partition(
            hosted.name,
            hosted.id,
            index,
            self._node_id,
            opened,
            # With one replica, the log contains everything that was acknowledged. With several, the others decide.
            known_mark=None if len(state.replicas) == 1 else self._store.high_watermarks.get(topic_partition, 0),
            isr_context=self._peers,
            deadlines=self._produce_deadlines,
        )
        self._take_role(partition, state)
        if not is_internal(hosted.name):
            return
        if self._publishing is None:
            self._notify_opened(hosted.name, index)
        elif index not in self._publishing.get(hosted.id, ()):
            # Later subscribers find only the partitions that this image changes, not those of an earlier one.
            self._chores.append(partial(self._notify_opened, hosted.name, index))

    def _open_failed(self, hosted: HostedTopic, index: int, error: OSError | StorageError) -> Log | None:
        """Schedule another attempt; return the log as a damaged one if it has been unreadable for `UNREADABLE_S`."""
        topic_partition = TopicPartition(hosted.name, PartitionIndex(index))
        if isinstance(error, OSError) and is_disk_full(error):
            self._store.directory.write_failed(error)
        if (hosted, index) not in self._unopened:
            log.error("partition %s is offline until its log can be opened: %s", topic_partition, error)
        now = self._clock.monotonic()
        if not isinstance(error, OSError) or error.errno not in UNOPENABLE:
            self._unopened[hosted, index] = None
            return None
        since = self._unopened.get((hosted, index))
        self._unopened[hosted, index] = since = now if since is None else since
        if now - since < UNREADABLE_S:
            return None
        opened = self._store.open_unreadable(topic_partition, hosted.id, self._topic_settings(hosted.name), str(error))
        if opened is not None:
            self._provisional[hosted, index] = _NextAttempt(now + REOPEN_S, REOPEN_S)
        else:
            # It had no records, so nothing is missing once it can be created.
            self._unopened[hosted, index] = None
        return opened

    def _retry_unreadable(self) -> None:
        """Try to open unreadable logs again, less and less often: each attempt may take long."""
        now = self._clock.monotonic()
        for (hosted, index), attempt in list(self._provisional.items()):
            partition = hosted.partitions.get(index)
            if partition is None or not partition.log.quarantine.is_provisional or partition.log.is_abandoned:
                del self._provisional[hosted, index]
            elif now >= attempt.at:
                topic_partition = TopicPartition(hosted.name, PartitionIndex(index))
                try:
                    self._store.open(topic_partition, hosted.id, self._topic_settings(hosted.name))
                except (OSError, StorageError, Corruption):
                    pause_s = min(attempt.pause_s * 2, REOPEN_S_MAX)
                    self._provisional[hosted, index] = _NextAttempt(now + pause_s, pause_s)
                else:
                    log.info("partition %s can be read again", topic_partition)
                    del self._provisional[hosted, index]
                    self.reopen(partition)

    def _notify_opened(self, name: TopicName, index: int) -> None:
        for opened in self.on_late_open:
            opened(name, index)

    def is_opening(self, name: TopicName, index: int) -> bool:
        """Return whether a missing log is about to be opened, or is being recovered."""
        is_expected = bool(self._chores) and self._image.partition(name, index) is not None
        return is_expected or self.late.is_opening(self.by_name.get(name.encode()), index)

    def _retry_open(self) -> None:
        """Open the logs that a full or failing disk has refused, unless a newer image has made them late ones."""
        takes_writes = self._store.directory.refusal is None
        for (hosted, index), since in list(self._unopened.items()):
            if index not in hosted.late and (takes_writes or since is not None):
                self._open(hosted, index)
            if index in hosted.partitions or index in hosted.late:
                del self._unopened[hosted, index]
            if index in hosted.partitions and hosted.partitions[index].log.damage is None:
                log.info("partition %s-%d is online", hosted.name, index)
                if not is_internal(hosted.name):
                    self._notify_opened(hosted.name, index)

    def reopen(self, partition: Partition) -> None:
        """Open a log again in place of one that was set aside or was unreadable."""
        hosted = self.by_id.get(partition.topic_id.bytes)
        if hosted is not None and hosted.partitions.get(partition.index) is partition:
            hosted.drop(partition.index)
            partition.fail(StorageError.code)
            self._open(hosted, partition.index)

    def _remove_replica(self, hosted: HostedTopic, index: int) -> None:
        """Delete a replica that a reassignment removed from this node."""
        topic = self._image.topics_by_id.get(hosted.id)
        if topic is None or self._node_id in topic.partitions[index].replicas:
            return
        partition = hosted.drop(index)
        if partition is not None:
            self._stop_replica(partition, NotLeaderOrFollower.code)
        is_unopened = (hosted, index) in self._unopened
        self._unopened.pop((hosted, index), None)
        if hosted.take_late(index) or partition is not None or is_unopened:
            self._delete(TopicPartition(hosted.name, PartitionIndex(index)), hosted.id)
        if self.by_id.get(hosted.id_bytes) is hosted and not self._has_replicas(hosted, topic):
            del self.by_id[hosted.id_bytes]
            if self.by_name.get(hosted.name_bytes) is hosted:
                del self.by_name[hosted.name_bytes]

    def _has_replicas(self, hosted: HostedTopic, topic: TopicImage) -> bool:
        """Return whether this node has replicas of a topic: open ones, others that are on disk, or new ones."""
        if hosted.partitions or hosted.late or any(other is hosted for other, _ in self._unopened):
            return True
        return any(self._node_id in state.replicas for state in topic.partitions)

    def _stop_replica(self, partition: Partition, code: int) -> None:
        if self._peers is not None:
            self._peers.stop_replica(partition)
        partition.fail(code)

    def _delete_topic(self, topic: TopicImage) -> None:
        hosted = self.by_id.pop(topic.id.bytes, None)
        if hosted is None:
            return
        if self.by_name.get(hosted.name_bytes) is hosted:
            del self.by_name[hosted.name_bytes]
        unopened = [index for other, index in self._unopened if other is hosted]
        for index in unopened:
            del self._unopened[hosted, index]
        indexes = [*hosted.partitions, *hosted.late, *unopened]
        hosted.late.clear()
        if len(self._chores) + len(indexes) < FEW_CHORES:
            self._chores.extend(self._deletion(hosted, indexes))
        else:
            self._chores.append(lambda: self._chores.extendleft(reversed([*self._deletion(hosted, indexes)])))

    def _deletion(self, hosted: HostedTopic, indexes: list[int]) -> Iterator[Callable[[], None]]:
        for partition in hosted.partitions.values():
            yield partial(self._stop_replica, partition, UnknownTopicOrPartition.code)
        topic_partitions = [TopicPartition(hosted.name, PartitionIndex(index)) for index in indexes]
        yield partial(self._store.prepare_delete, topic_partitions, hosted.id)
        yield from (partial(self._delete, topic_partition, hosted.id) for topic_partition in topic_partitions)

    def _delete(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        try:
            self._store.delete(topic_partition, topic_id)
        except (OSError, StorageError) as error:
            log.error("cannot remove the files of deleted partition %s: %s", topic_partition, error)

    def _run_chores(self, count: int, *, within_s: float = inf) -> None:
        """Run the oldest chores. The order matters: a deleted topic's files go before a new topic of the same name."""
        ends = self._clock.monotonic() + within_s
        for _ in range(min(count, len(self._chores))):
            self._chores.popleft()()
            if self._clock.monotonic() >= ends:
                break

    def _schedule_chores(self) -> None:
        if self._chores_timer is None and (self._chores or self.late.has_next):
            self._chores_timer = self._clock.call_later(0, self._run_slice)

    def _run_slice(self) -> None:
        if self._chores_timer is not None:
            # A request that waits runs a slice itself, and one in each turn of the loop is enough.
            self._chores_timer.cancel()
            self._chores_timer = None
        self._schedule_chores()  # First, so that the others run even if one fails unexpectedly.
        self._run_chores(CHORES_PER_SLICE, within_s=SLICE_S)
        self._open_late_logs(within_s=SLICE_S)

    # -- time and failure ------------------------------------------------------------------

    def _sweep(self) -> None:
        now = self._clock.monotonic()
        self._produce_deadlines.expire(now)
        if self._peers is not None and now >= self._lag_check_at:
            self._lag_check_at = now + self._peers.lag_s_max / 2
            self._leader_rounds.begin(Partition.maybe_shrink_isr, self.all())
        if self._unopened:
            self._retry_open()
            self._open_late_logs(within_s=0)
        if self._provisional:
            self._retry_unreadable()
        if self._store.directory.has_damage and self._peers is not None:
            # Consumers may have found the damage.
            self._peers.report_damage([partition for partition in self.all() if partition.log.damage is not None])
        if now >= self._checkpoint_at:
            interval_ms = self._current_settings().integer("replica.high.watermark.checkpoint.interval.ms")
            self._checkpoint_at = now + interval_ms / 1000
            self._marks.checkpoint_later()
        self._sweep_timer = self._clock.call_later(SWEEP_S, self._sweep)

    def directory_failed(self) -> None:
        """Answer all waiting requests after a failure of the data folder: no later sync can be trusted."""
        for partition in list(self.all()):
            partition.fail(StorageError.code)
