"""A life of a small data folder that can end at any disk call, and what must be true afterwards."""

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from penstock.config.settings import TopicSettings, default_topic_settings
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.ports.clock import Timer
from penstock.sim.disk import SimDisk
from penstock.storage import snapshots
from penstock.storage.epoch_cache import EpochCache
from penstock.storage.log import Log
from penstock.storage.producer_state import ProducerState
from penstock.storage.store import LogStore
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import Record, encode_batch

FOLDER = "/data"
NOW_MS = 1_700_000_000_000
PLACES = tuple(TopicPartition(TopicName("orders"), PartitionIndex(index)) for index in range(2))
TOPIC_ID = UUID(int=0xFEED)
PRODUCERS = (1000, 1001)


class FixedClock:
    """A clock that stands still."""

    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return NOW_MS

    def call_later(self, delay_s: float, callback: object) -> Timer:
        raise AssertionError("nothing here waits")


class CountingEntropy:
    """Ids that differ, and are the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> UUID:
        self._count += 1
        return UUID(int=self._count)

    def stream(self, name: str) -> Random:
        return Random(name)


@dataclass
class Partition:
    """What a client knows of one partition."""

    # Every batch that may stand at an offset, as it was sent; and those acknowledged as durable.
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    recent: dict[int, list[tuple[int, int, bytes]]] = field(default_factory=dict)
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


def load(disk: SimDisk) -> LogStore:
    return LogStore.load(disk, FOLDER, cluster_id="crash", node_id=1, clock=FixedClock(), entropy=CountingEntropy())


def as_sent(sealed: bytes) -> memoryview:
    """The batch as a producer sends it: offsets are the broker's to give."""
    return memoryview(bytearray(8) + sealed[8:])


class Life:
    """One run of the workload: the same disk calls each time, up to the one where it is stopped."""

    def __init__(self, disk: SimDisk, *, flush_mode: str = "fsync", seed: int = 0) -> None:
        self.disk = disk
        self.random = Random(seed)
        self.flush_mode = flush_mode
        self.partitions = {place: Partition() for place in PLACES}
        self.epoch = 1

    def run(self) -> None:
        for _ in range(2):
            store = load(self.disk)
            logs = {place: store.open(place, TOPIC_ID, settings(flush_mode=self.flush_mode)) for place in PLACES}
            for step in range(26):
                self._step(store, logs, step)
            self.epoch += 1
            store.close()

    def _step(self, store: LogStore, logs: dict[TopicPartition, Log], step: int) -> None:
        place = PLACES[step % 3 == 2]
        log, known = logs[place], self.partitions[place]
        self._append(log, known, idempotent=step % 4 != 0)
        if step % 9 == 8:
            store.checkpoint_recovery_points()
        if step in (5, 15):
            self.epoch += 1
        if step == 13:
            known.start_asked = min(log.durable_offset, log.start_offset + 7)
            log.advance_start(known.start_asked)
            known.start_acknowledged = known.start_asked
        if step == 17:
            log.delete_old_segments(high_watermark=log.durable_offset, now_ms=NOW_MS)
            log.remove_doomed_files(NOW_MS)
        if step == 21:
            log.roll()

    def _append(self, log: Log, known: Partition, *, idempotent: bool) -> None:
        count = self.random.randrange(1, 4)
        records = [
            Record(
                timestamp=NOW_MS + self.random.randrange(1000),
                key=b"k",
                value=self.random.randbytes(self.random.randrange(5, 400)),
            )
            for _ in range(count)
        ]
        producer_id = self.random.choice(PRODUCERS) if idempotent else -1
        sequence = known.sequences.get(producer_id, 0) if idempotent else -1
        sealed = encode_batch(
            records,
            base_offset=log.end_offset,
            leader_epoch=self.epoch,
            producer_id=producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence,
        )
        offset = log.end_offset
        known.sent.setdefault(offset, []).append(sealed)
        appended = log.append(as_sent(sealed), leader_epoch=self.epoch, now_ms=NOW_MS)
        assert appended.base_offset == offset
        if idempotent:
            known.sequences[producer_id] = sequence + count
            known.recent.setdefault(producer_id, []).append((offset, sequence, sealed))
        if self.random.random() < 0.5:
            self.disk.finish_sync()
        for sent_at, batches in known.sent.items():
            if sent_at + BatchHeader.at(batches[-1]).last_offset_delta < log.durable_offset:
                known.acknowledged[sent_at] = batches[-1]


def read_all(log: Log) -> dict[int, bytes]:
    """Return every batch by its base offset, read as a consumer would."""
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
    """What was acknowledged is there byte for byte, and nothing is there that was not sent."""
    assert log.damage is None, log.damage
    assert known.start_acknowledged <= log.start_offset
    assert log.start_offset <= max(known.start_asked, log.bases[0])
    found = read_all(log)
    if durable:
        for offset, sealed in known.acknowledged.items():
            if offset + BatchHeader.at(sealed).last_offset_delta >= log.start_offset:
                assert found.get(offset) == sealed, f"the acknowledged batch at {offset} is not there"
    for offset, view in found.items():
        assert view in known.sent.get(offset, ()), f"the batch at {offset} was never sent"


def check_derived(log: Log) -> None:
    """Indexes, epochs and producer state are what the log's batches say."""
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
        snapshots.replay(log.segments, replayed, 0, log.end_offset, NOW_MS)
        assert {each.producer_id: list(each.batches) for each in log.producers()} == {
            each.producer_id: list(each.batches) for each in replayed
        }


def check_goes_on(log: Log, known: Partition) -> None:
    """The log takes new batches, and knows repeated ones."""
    for producer_id, recent in known.recent.items():
        kept = [each for each in recent if each[0] in known.acknowledged][-5:]
        state = {each.producer_id: each for each in log.producers()}.get(producer_id)
        last_kept = {batch.base_offset for batch in state.batches} if state else set()
        for offset, _, sealed in kept:
            if offset in last_kept:
                appended = log.append(as_sent(sealed), leader_epoch=9, now_ms=NOW_MS)
                assert appended.duplicate and appended.base_offset == offset
    sealed = encode_batch([Record(timestamp=NOW_MS, key=b"k", value=b"after")], leader_epoch=9)
    offset = log.end_offset
    assert log.append(memoryview(bytearray(sealed)), leader_epoch=9, now_ms=NOW_MS).base_offset == offset
    piece = log.read(offset, max_bytes=100, end=log.end_offset)
    assert piece is not None and piece.file.read(piece.size, piece.position)[61:] == sealed[61:]
