"""The driver of the metadata quorum: the core's effects on disk, the log's news to the core.

`commit` writes one batch, steps the core, and returns once the batch is durable, applied
and published. Goes to `raft/core.py`, `storage/log.py`, `delta.py`, `publisher.py` and
`keeper.py`. Runs a quorum of one voter. Refuses: StorageError when the disk fails (a failed
write refuses one commit, a failed sync all that follow), StartupError for unreadable metadata.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from uuid import UUID

from penstock.config.settings import BrokerSettings, TopicSettings, default_topic_settings
from penstock.metadata import control, quorum_state
from penstock.metadata.delta import Builder, Delta, apply
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.keeper import Keeper, load_newest
from penstock.metadata.publisher import Publisher, Subscriber
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord, decode, encode
from penstock.metadata.snapshot import METADATA_VERSION, Snapshot, end_of
from penstock.model.errors import Corruption, Refusal, StartupError, StorageError
from penstock.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicPartition
from penstock.model.topic import CLUSTER_METADATA
from penstock.ports.clock import Clock
from penstock.ports.disk import Disk
from penstock.raft.core import Core
from penstock.raft.events import Appended, Effects, ElectionState, LogStartMoved, Started, Synced
from penstock.raft.messages import LeaderChange
from penstock.raft.shape import NO_RECORDS, LogShape
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import Record, decode_batch, encode_batch

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA, PartitionIndex(0))
METADATA_TOPIC_ID = TopicId(UUID(int=1))
_READ_BYTES = 1 << 20
_BATCH_BYTES_MAX = 64 << 20
"""Far above what one decision writes: a commit is one batch, however large."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A commit that is written but not yet durable."""

    last_offset: Offset
    delta: Delta
    image: Image
    timestamp: int
    size: int
    done: asyncio.Future[None]


class Quorum:
    """The metadata of the cluster, and the only way to change it."""

    def __init__(self, *, clock: Clock, log: Log, core: Core, newest: Snapshot | None, directory_id: UUID) -> None:
        self.log = log
        self._clock = clock
        self._disk = log.directory.disk
        self._core = core
        self._directory_id = directory_id
        self._publisher = Publisher()
        self._head = EMPTY
        self._newest = newest
        self._pending: deque[_Pending] = deque()
        self._failure: OSError | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: Keeper | None = None
        self._replayed_bytes = 0
        self._replayed_until = -1 if newest is None else newest.timestamp

    @classmethod
    async def open(
        cls,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        data_folder: str,
        node_id: NodeId,
        directory_id: UUID,
        settings: BrokerSettings,
        initial_features: Mapping[str, int],
        directory: LogDirectory | None = None,
    ) -> "Quorum":
        """Read what is there, elect this node, and give a new cluster its first features.

        A `directory` that is handed in is shared: whoever else asked to be told of its failure still is.
        """
        try:
            folder = f"{data_folder}/{METADATA_PARTITION}"
            log = _open_log(disk, clock, folder, settings, directory)
            newest = load_newest(disk, folder, log_start=log.start_offset)
            core = _make_core(disk, log, newest, node_id=node_id, random=random)
            quorum = cls(clock=clock, log=log, core=core, newest=newest, directory_id=directory_id)
            quorum._watch(log.directory)
            log.on_durable = quorum._became_durable
            quorum._carry_out(core.step(Started(), clock.monotonic()))
            await quorum._ready
            quorum._keep_snapshots(settings)
            if initial_features and not quorum.image.features:
                await quorum.commit(_first_records(initial_features))
        except (OSError, Refusal, Corruption) as problem:
            raise StartupError(f"The metadata in {data_folder} cannot be opened: {problem}") from problem
        return quorum

    @property
    def image(self) -> Image:
        """All that is committed and applied."""
        return self._publisher.image

    @property
    def leader(self) -> NodeId | None:
        return self._core.leader

    @property
    def epoch(self) -> LeaderEpoch:
        return self._core.epoch

    @property
    def high_watermark(self) -> Offset:
        return self._core.high_watermark

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell the subscriber of all there is, then of every change, after those who came before it."""
        self._publisher.subscribe(subscriber)

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        """Return once the records are durable, applied and published; a crash leaves all of them or none.

        They are tried on the image first, so that nothing is ever written that could not be replayed.
        """
        assert records, "a commit changes something"
        self._refuse_if_failed()
        timestamp = self._clock.wall_ms()
        base_offset, epoch = self._core.log.end_offset, self._core.epoch
        last_offset = Offset(base_offset + len(records) - 1)
        delta, image = apply(self._head, records, offset=last_offset, epoch=epoch)
        batch = [Record(timestamp=timestamp, value=encode(record)) for record in records]
        size = self._append(batch, is_control=False, timestamp=timestamp)
        self._refuse_if_failed()
        self._head = image
        done = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(last_offset, delta, image, timestamp, size, done))
        self._carry_out(self._core.step(Appended(last_offset), self._clock.monotonic()))
        self._became_durable()
        await done

    def fail(self, error: OSError) -> None:
        """The disk is no longer to be trusted: refuse what waits and what is still to come."""
        self._failure = self._failure or error
        waiting = [pending.done for pending in self._pending]
        self._pending.clear()
        for future in (*waiting, self._ready):
            if not future.done():
                future.set_exception(StorageError(f"the metadata log is offline: {error}"))

    async def close(self) -> None:
        """Wait for what is under way, then leave the log clean."""
        if self._keeper is not None:
            self._keeper.stop()
        await asyncio.gather(*(pending.done for pending in self._pending), return_exceptions=True)
        self.log.on_durable = lambda: None
        self.log.close()

    def _watch(self, directory: LogDirectory) -> None:
        others = directory.on_failure

        def failed(error: OSError) -> None:
            self.fail(error)
            others(error)

        directory.on_failure = failed

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise StorageError(f"the metadata log is offline: {self._failure}")

    def _keep_snapshots(self, settings: BrokerSettings) -> None:
        self._keeper = Keeper(
            clock=self._clock,
            log=self.log,
            newest=self._newest,
            bytes_between=settings.integer("metadata.log.max.record.bytes.between.snapshots"),
            interval_ms=settings.integer("metadata.log.max.snapshot.interval.ms"),
            on_dropped=lambda end: self._carry_out(self._core.step(LogStartMoved(end), self._clock.monotonic())),
        )
        self._keeper.note(Snapshot(self.image, self._replayed_until), size=self._replayed_bytes)

    def _carry_out(self, effects: Effects) -> None:
        """Do what the core wants, in the order that `raft/events.py` asks for."""
        assert not effects.send and effects.truncate_to is None, "a quorum of one talks to nobody"
        if effects.persist is not None:
            quorum_state.write(
                self._disk, self.log.folder, effects.persist, directories={self._core.node_id: self._directory_id}
            )
        for batch in effects.append:
            assert isinstance(batch.payload, LeaderChange), "a leader's own records come with commit()"
            timestamp = self._clock.wall_ms()
            record = control.leader_change(batch.payload, timestamp=timestamp)
            self._append([record], is_control=True, timestamp=timestamp)
        if effects.high_watermark is not None:
            self._apply(effects.high_watermark)

    def _append(self, records: list[Record], *, is_control: bool, timestamp: int) -> int:
        epoch = self._core.epoch
        batch = bytearray(encode_batch(records, leader_epoch=epoch, is_control=is_control))
        self.log.append(memoryview(batch), leader_epoch=epoch, now_ms=timestamp, trusted=True)
        return len(batch)

    def _became_durable(self) -> None:
        # A sync may be over before the core has heard of what it made durable.
        end = min(Offset(self.log.durable_offset), self._core.log.end_offset)
        self._carry_out(self._core.step(Synced(end), self._clock.monotonic()))

    def _apply(self, mark: Offset) -> None:
        """Publish what is committed: at the start all that the log holds, then one commit after another."""
        if not self._ready.done():
            try:
                self._replay(mark)
            except (Corruption, Refusal) as problem:
                self._ready.set_exception(problem)
            else:
                self._ready.set_result(None)
        while self._pending and self._pending[0].last_offset < mark:
            pending = self._pending.popleft()
            self._publisher.publish(pending.delta, pending.image)
            if self._keeper is not None:
                self._keeper.note(Snapshot(pending.image, pending.timestamp), size=pending.size)
            if not pending.done.done():
                pending.done.set_result(None)

    def _replay(self, mark: Offset) -> None:
        """Make the first image: the newest checkpoint and the log behind it."""
        base = EMPTY if self._newest is None else self._newest.image
        builder = Builder(base)
        offset, epoch = base.offset, base.epoch
        for header, records in _read_batches(self.log, Offset(base.offset + 1), mark):
            offset, epoch = Offset(header.last_offset), LeaderEpoch(header.leader_epoch)
            self._replayed_until = header.max_timestamp
            if not header.is_control:
                self._replayed_bytes += header.size
                for record in records:
                    builder.replay(decode(record.value or b""))
        _, self._head = builder.build(offset=offset, epoch=epoch)
        self._publisher.publish(Delta.whole(self._head), self._head)


def _open_log(disk: Disk, clock: Clock, folder: str, settings: BrokerSettings, directory: LogDirectory | None) -> Log:
    is_new = not disk.exists(folder)
    disk.make_folder(folder)
    if is_new:
        disk.sync_folder(folder.rpartition("/")[0])
    log = Log.open(
        disk,
        folder,
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        _log_settings(settings),
        clock_wall_ms=clock.wall_ms,
        # The log is short, and nothing in it may be rotten: it is read whole at every start.
        clean=False,
        directory=directory,
    )
    if log.damage is not None:
        raise StorageError(log.damage)
    return log


def _log_settings(settings: BrokerSettings) -> TopicSettings:
    return default_topic_settings(
        segment_bytes=max(settings.integer("metadata.log.segment.bytes"), _BATCH_BYTES_MAX),
        segment_ms=settings.integer("metadata.log.segment.ms"),
        max_message_bytes=_BATCH_BYTES_MAX,
        # What is committed is durable, whatever a broker's topics promise (a quorum of one included).
        flush_mode="fsync",
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=0,
    )


def _make_core(disk: Disk, log: Log, newest: Snapshot | None, *, node_id: NodeId, random: Random) -> Core:
    snapshot = NO_RECORDS if newest is None else end_of(newest.image)
    if snapshot.end_offset > log.end_offset:
        logger.warning("%s ends before its newest checkpoint: it begins anew behind it", log.folder)
        log.truncate_fully_and_start_at(snapshot.end_offset)
    shape = LogShape(snapshot=snapshot)
    epochs = [(epoch, max(start, snapshot.end_offset)) for epoch, start in log.epochs.entries()]
    for (epoch, start), (_, end) in pairwise([*epochs, (None, log.end_offset)]):
        if end > start and epoch is not None:
            shape.append(last_offset=Offset(end - 1), epoch=LeaderEpoch(epoch))
    if shape.end_offset != log.end_offset:
        raise Corruption(f"{log.folder} ends at {log.end_offset}, but its epochs end at {shape.end_offset}")
    shape.durable_offset = shape.end_offset
    return Core(
        node_id=node_id,
        voters=frozenset({node_id}),
        election=_read_election(disk, log.folder, shape.last_epoch),
        log=shape,
        random=random,
    )


def _read_election(disk: Disk, folder: str, last_epoch: LeaderEpoch) -> ElectionState:
    """What this voter has promised. Alone, it has promised nobody anything, so the log's last epoch will do."""
    try:
        election = quorum_state.read(disk, folder)
    except Corruption as problem:
        logger.error("The epoch is taken from the log: %s", problem)
        election = None
    if election is None or election.epoch < last_epoch:
        return ElectionState(epoch=last_epoch)
    return election


def _read_batches(log: Log, start: Offset, end: Offset) -> Iterator[tuple[BatchHeader, list[Record]]]:
    offset = start
    while offset < end:
        piece = log.read(offset, max_bytes=_READ_BYTES, end=end, at_least_one=True)
        if piece is None:
            raise Corruption(f"{log.folder} has nothing at offset {offset}, which is below its high watermark {end}")
        for view in iter_batches(piece.file.read(piece.size, piece.position)):
            header = BatchHeader.at(view)
            yield header, decode_batch(view)
            offset = Offset(header.next_offset)


def _first_records(features: Mapping[str, int]) -> list[MetadataRecord]:
    """The features of a new cluster; the metadata version comes first, as Kafka asks."""
    names = sorted(features, key=lambda name: (name != METADATA_VERSION, name))
    return [FeatureLevelRecord(name=name, feature_level=features[name]) for name in names]
