"""A workload on a small data directory that can stop at any disk call, and the checks afterwards."""

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from penstock.config.settings import TopicSettings, default_topic_settings
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.ports.clock import Timer
from penstock.storage import producer_snapshots
from penstock.storage.epoch_cache import EpochCache
from penstock.storage.log import Log
from penstock.storage.marker import encode_marker, read_marker
from penstock.storage.marker_append import append_marker
from penstock.storage.producer_state import ProducerState
from penstock.storage.store import LogStore
from penstock.wire.batch import BatchHeader, iter_batches, patch_offset_and_epoch
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk

FOLDER = "/data"
NOW_MS = 1_700_000_000_000
PARTITIONS = tuple(TopicPartition(TopicName("orders"), PartitionIndex(index)) for index in range(2))
TOPIC_ID = UUID(int=0xFEED)
# So small that its files alternate every few batches.
JOURNAL_SIZE = 4000
PRODUCERS = (1000, 1001)
TRANSACTIONAL_PRODUCERS = (2000, 2001)


class _NeverRings:
    def cancel(self) -> None:
        return


class FixedClock:
    """A clock that stands still: a directory that becomes read-only stays so until it is opened again."""

    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return NOW_MS

    def call_later(self, delay_s: float, callback: object) -> Timer:
        return _NeverRings()


class CountingEntropy:
    """Distinct ids that are the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> UUID:
        self._count += 1
        return UUID(int=self._count)

    def stream(self, name: str) -> Random:
        return Random(name)


@dataclass
class Partition:
    """The client's knowledge of one partition."""

    # Every batch that may be at an offset, as it was sent; and those acknowledged as durable.
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    recent: dict[int, list[tuple[int, int, bytes]]] = field(default_factory=dict)
    # The epoch of each transactional producer, which every marker increases.
    epochs: dict[int, int] = field(default_factory=dict)
    start_asked: int = 0
    start_acknowledged: int = 0


def settings(**changes: Any) -> TopicSettings:
    defaults: dict[str, Any] = {
        "segment_bytes": 2500,
        "index_interval_bytes": 300,
        "retention_ms": -1,
        "file_delete_delay_ms": 0,
    }
    return default_topic_settings(**{**defaults, **changes})


def load(disk: SimDisk, *, journal_size: int = 0) -> LogStore:
    """Open the directory; with a journal, every small append goes through it."""
    return LogStore.load(
        disk,
        FOLDER,
        cluster_id="crash",
        node_id=1,
        clock=FixedClock(),
        entropy=CountingEntropy(),
        journal_size=journal_size,
        journal_group_least=0,
    )


def as_sent(sealed: bytes) -> memoryview:
    """Return the batch as a producer sends it: the broker assigns offsets."""
    return memoryview(bytearray(8) + sealed[8:])


class Life:
    """One run of the workload: the same disk calls each time, up to the one where it stops."""

    def __init__(
        self, disk: SimDisk, *, flush_mode: str = "fsync", seed: int = 0, journal_size: int = JOURNAL_SIZE
    ) -> None:
        self.disk = disk
        self.journal_size = journal_size
        self.random = Random(seed)
        self.flush_mode = flush_mode
        self.partitions = {topic_partition: Partition() for topic_partition in PARTITIONS}
        self.epoch = 1

    def run(self) -> None:
        for _ in range(2):
            store = load(self.disk, journal_size=self.journal_size)
            logs = {
                topic_partition: store.open(topic_partition, TOPIC_ID, settings(flush_mode=self.flush_mode))
                for topic_partition in PARTITIONS
            }
            for step in range(26):
                self._step(store, logs, step)
            self.epoch += 1
            store.close()

    def _step(self, store: LogStore, logs: dict[TopicPartition, Log], step: int) -> None:
        topic_partition = PARTITIONS[step % 3 == 2]
        log, known = logs[topic_partition], self.partitions[topic_partition]
        if step % 5 == 3:
            self._append(log, known, kind="transactional")
        self._append(log, known, kind="idempotent" if step % 4 else "plain")
        if step % 7 == 6:
            self._end_transaction(log, known)
        if step % 9 == 8:
            store.checkpoint_recovery_points()
        if step in (5, 15):
            self.epoch += 1
        if step == 13:
            known.start_asked = min(log.durable_offset, log.start_offset + 7)
            log.advance_start(known.start_asked)
            log.checkpoints.when_start_saved(partial(self._start_saved, known))
        if step == 17:
            log.delete_old_segments(high_watermark=log.durable_offset, now_ms=NOW_MS)
            log.deletes.remove_due(NOW_MS)
        if step == 21:
            log.roll()

    def _start_saved(self, known: Partition, error: OSError | None) -> None:
        if error is None:
            known.start_acknowledged = known.start_asked

    def _append(self, log: Log, known: Partition, *, kind: str) -> None:
        count = self.random.randrange(1, 4)
        records = [
            Record(
                timestamp=NOW_MS + self.random.randrange(1000),
                key=b"k",
                value=self.random.randbytes(self.random.randrange(5, 400)),
            )
            for _ in range(count)
        ]
        transactional, idempotent = kind == "transactional", kind != "plain"
        producer_id = self.random.choice(TRANSACTIONAL_PRODUCERS if transactional else PRODUCERS) if idempotent else -1
        sequence = known.sequences.get(producer_id, 0) if idempotent else -1
        sealed = encode_batch(
            records,
            base_offset=log.end_offset,
            leader_epoch=self.epoch,
            producer_id=producer_id,
            producer_epoch=known.epochs.get(producer_id, 0) if idempotent else -1,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        offset = log.end_offset
        known.sent.setdefault(offset, []).append(sealed)
        appended = log.append(
            as_sent(sealed), leader_epoch=self.epoch, now_ms=NOW_MS, transaction_verified=transactional
        )
        assert appended.base_offset == offset
        if idempotent:
            known.sequences[producer_id] = sequence + count
            known.recent.setdefault(producer_id, []).append((offset, sequence, sealed))
        self._acknowledge(log, known)

    def _end_transaction(self, log: Log, known: Partition) -> None:
        """Commit or abort as in transaction version 2, with the next epoch."""
        producer_id = self.random.choice(TRANSACTIONAL_PRODUCERS)
        known.epochs[producer_id] = known.epochs.get(producer_id, 0) + 1
        known.sequences[producer_id] = 0
        known.recent.pop(producer_id, None)
        marker: dict[str, Any] = {
            "producer_id": producer_id,
            "producer_epoch": known.epochs[producer_id],
            "commit": self.random.random() < 0.3,
            "coordinator_epoch": self.epoch,
        }
        sealed = encode_marker(**marker, now_ms=NOW_MS, broker_time=False)
        patch_offset_and_epoch(sealed, 0, log.end_offset, self.epoch)
        known.sent.setdefault(log.end_offset, []).append(bytes(sealed))
        append_marker(log, **marker, leader_epoch=self.epoch, now_ms=NOW_MS, transaction_version=2)
        self._acknowledge(log, known)

    def _acknowledge(self, log: Log, known: Partition) -> None:
        if self.random.random() < 0.5:
            self.disk.finish_sync()
        for sent_at, batches in known.sent.items():
            if sent_at + BatchHeader.at(batches[-1]).last_offset_delta < log.durable_offset:
                known.acknowledged[sent_at] = batches[-1]


def read_all(log: Log) -> dict[int, bytes]:
    """Return every batch by base offset, as a consumer reads it."""
    found: dict[int, bytes] = {}
    offset = log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, max_bytes=1500, end=log.end_offset)
        assert piece is not None, f"nothing at {offset} of {log.end_offset}"
        for view in iter_batches(piece.file.read(piece.size, piece.position)):
            header = BatchHeader.at(view)
            found[header.base_offset] = bytes(view)
            assert header.next_offset > offset or header.base_offset < log.start_offset
            offset = header.next_offset
    return found


def check_partition(log: Log, known: Partition, *, durable: bool = True) -> None:
    """Check that acknowledged batches exist byte for byte, and that nothing else exists."""
    assert log.damage is None, log.damage
    assert known.start_acknowledged <= log.start_offset
    assert log.start_offset <= max(known.start_asked, log.segments.bases[0])
    found = read_all(log)
    if durable:
        for offset, sealed in known.acknowledged.items():
            if offset + BatchHeader.at(sealed).last_offset_delta >= log.start_offset:
                assert found.get(offset) == sealed, f"the acknowledged batch at {offset} is missing"
    for offset, view in found.items():
        assert view in known.sent.get(offset, ()), f"the batch at {offset} was never sent"


def check_derived(log: Log) -> None:
    """Check that indexes, epochs and producer state agree with the log's batches."""
    batches: list[tuple[int, int, BatchHeader]] = []
    for slot, segment in enumerate(log.segments):
        content = segment.file.read(segment.size, 0)
        position = 0
        for view in iter_batches(content):
            batches.append((slot, position, BatchHeader.at(view)))
            position += len(view)
        assert position == segment.size
    for slot, position, header in batches:
        segment = log.segments[slot]
        assert segment.find(header.base_offset) == position
        assert segment.find(header.last_offset) == position
    for index, segment in enumerate(log.segments):
        segment.ensure_timed()
        timestamps = [header.max_timestamp for slot, _, header in batches if slot == index]
        assert segment.max_timestamp == max(timestamps, default=-1)
        for slot in range(len(segment.offset_index)):
            last_offset, position = segment.offset_index.entry(slot)
            assert BatchHeader.at(segment.file.read(61, position)).last_offset == last_offset
    epochs = EpochCache(log.directory.disk, "/nowhere")
    for _, _, header in batches:
        epochs.assign(header.leader_epoch, header.base_offset)
    epochs.truncate_start(log.start_offset)
    assert log.epochs.entries() == epochs.entries()
    if batches and batches[0][2].base_offset == 0:
        replayed = ProducerState()
        producer_snapshots.replay(log.segments, replayed, 0, log.end_offset, NOW_MS)
        assert producers_of(log.producer_state) == producers_of(replayed)
        assert log.producer_state.open_transactions == replayed.open_transactions
    check_aborted(log, [header for _, _, header in batches])


def producers_of(state: ProducerState) -> dict[int, tuple[object, ...]]:
    return {
        each.producer_id: (
            each.epoch,
            each.next_sequence,
            list(each.batches),
            each.coordinator_epoch,
            each.txn_first_offset,
            each.last_timestamp,
        )
        for each in state
    }


def check_aborted(log: Log, headers: list[BatchHeader]) -> None:
    """Check that the aborted transactions agree with the log's markers, for any range."""
    open_from: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for header in headers:
        if header.is_control:
            piece = log.read(max(header.base_offset, log.start_offset), max_bytes=1, end=log.end_offset)
            marker = read_marker(piece.file.read(piece.size, piece.position)) if piece else None
            first = open_from.pop(header.producer_id, None)
            if (
                first is not None
                and marker is not None
                and not marker.commit
                and header.base_offset >= log.start_offset
            ):
                aborted.append((header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            open_from.setdefault(header.producer_id, header.base_offset)
    for start in range(log.start_offset, log.end_offset, 5):
        for end in (start + 1, start + 20, log.end_offset):
            needed = {(who, first) for who, first, last in aborted if first < end and last >= start}
            assert needed <= set(log.aborted_transactions(start, end))
    if headers and headers[0].base_offset == 0:
        first_unstable = min(open_from.values(), default=None)
        if first_unstable is not None:
            first_unstable = max(first_unstable, log.start_offset)
        assert log.first_unstable_offset == first_unstable


def check_goes_on(log: Log, known: Partition) -> None:
    """Check that the log accepts new batches and recognizes duplicates."""
    for producer_id, recent in known.recent.items():
        kept = [each for each in recent if each[0] in known.acknowledged][-5:]
        state = {each.producer_id: each for each in log.producers()}.get(producer_id)
        last_kept = {batch.base_offset for batch in state.batches} if state else set()
        for offset, _, sealed in kept:
            if offset in last_kept:
                appended = log.append(as_sent(sealed), leader_epoch=9, now_ms=NOW_MS)
                assert appended.duplicate and appended.base_offset == offset
    for producer_id in list(log.producer_state.open_transactions.values()):
        epoch = log.producer_state.producers[producer_id].epoch + 1
        append_marker(
            log,
            producer_id=producer_id,
            producer_epoch=epoch,
            commit=False,
            coordinator_epoch=99,
            leader_epoch=9,
            now_ms=NOW_MS,
            transaction_version=2,
        )
    log.high_watermark_moved(log.end_offset)
    assert log.first_unstable_offset is None
    sealed = encode_batch([Record(timestamp=NOW_MS, key=b"k", value=b"after")], leader_epoch=9)
    offset = log.end_offset
    assert log.append(memoryview(bytearray(sealed)), leader_epoch=9, now_ms=NOW_MS).base_offset == offset
    piece = log.read(offset, max_bytes=100, end=log.end_offset)
    assert piece is not None and piece.file.read(piece.size, piece.position)[61:] == sealed[61:]
