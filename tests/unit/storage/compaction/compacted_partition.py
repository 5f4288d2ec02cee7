"""A compacted partition on an in-memory disk, with clients that write keys, transactions and tombstones."""

from typing import Any
from uuid import UUID

from penstock.config.settings import TopicSettings, default_topic_settings
from penstock.model.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from penstock.storage.compaction.cleaner import Cleaner
from penstock.storage.log import Log
from penstock.storage.marker_append import append_marker
from penstock.storage.store import LogStore
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import Record, decode_batch, encode_batch
from penstock_sim.disk import SimDisk
from tests.crash.workload import CountingEntropy
from tests.support.appending import append_at_once
from tests.support.compacting import HandClock, compact_all

NOW_MS = 1_700_000_000_000
FOLDER = "/data"
PARTITION = TopicPartition(TopicName("table"), PartitionIndex(0))
TOPIC_ID = TopicId(UUID(int=77))


def compacted(**changes: Any) -> TopicSettings:
    defaults: dict[str, Any] = {
        "cleanup_policy": frozenset({"compact"}),
        "segment_bytes": 1500,
        "index_interval_bytes": 200,
        "min_cleanable_dirty_ratio": 0.0,
        "delete_retention_ms": 10_000,
        "file_delete_delay_ms": 1000,
        "retention_ms": -1,
    }
    return default_topic_settings(**{**defaults, **changes})


class CompactedPartition:
    def __init__(self, disk: SimDisk | None = None, **changes: Any) -> None:
        self.disk = disk or SimDisk()
        self.clock = HandClock(NOW_MS)
        self.changes = changes
        self.epoch = 0
        self.open()

    def open(self) -> None:
        self.store = LogStore.load(
            self.disk, FOLDER, cluster_id="c", node_id=1, clock=self.clock, entropy=CountingEntropy()
        )
        self.log: Log = self.store.open(PARTITION, TOPIC_ID, compacted(**self.changes))

    def open_again(self) -> None:
        """Delete and recreate the topic."""
        self.log = self.store.open(PARTITION, TopicId(UUID(int=78)), compacted(**self.changes))

    def restart(self) -> None:
        self.store.close()
        self.open()

    def put(self, *pairs: tuple[str, str | None], codec: int = 0, **header: Any) -> int:
        """Append one batch of keys and values (None deletes); return its base offset."""
        records = [
            Record(timestamp=self.clock.now_ms, key=key.encode(), value=None if value is None else value.encode())
            for key, value in pairs
        ]
        sealed = encode_batch(records, codec=codec, **header)
        appended = append_at_once(
            self.log,
            memoryview(bytearray(sealed)),
            leader_epoch=self.epoch,
            now_ms=self.clock.now_ms,
            transaction_verified=True,
        )
        return appended.base_offset

    def put_in_transaction(
        self, producer_id: int, sequence: int, *pairs: tuple[str, str | None], epoch: int = 0
    ) -> int:
        return self.put(
            *pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
        )

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        return append_marker(
            self.log,
            producer_id=producer_id,
            producer_epoch=epoch,
            commit=commit,
            coordinator_epoch=0,
            leader_epoch=self.epoch,
            now_ms=self.clock.now_ms,
        ).base_offset

    def compact(self, *, passes: int = 3, roll: bool = True, **settings: Any) -> Cleaner:
        if roll:
            self.log.roll()
        return compact_all(self.store, self.disk, self.clock, passes=passes, **settings)

    # Reading

    def batches(self, log: Log | None = None) -> list[tuple[BatchHeader, bytes]]:
        log = log or self.log
        found: list[tuple[BatchHeader, bytes]] = []
        offset = log.start_offset
        while offset < log.end_offset:
            piece = log.read(offset, max_bytes=600, end=log.end_offset)
            assert piece is not None, f"nothing at {offset} of {log.end_offset}"
            for view in iter_batches(piece.file.read(piece.size, piece.position)):
                header = BatchHeader.at(view)
                found.append((header, bytes(view)))
                offset = header.next_offset
        return found

    def records(self, *, committed: bool = False, end: int | None = None) -> list[Record]:
        """Read everything, or everything before an offset, as a consumer does."""
        hidden = self.log.aborted_transactions(self.log.start_offset, self.log.end_offset)
        found: list[Record] = []
        aborting: set[int] = set()
        for header, batch in self.batches():
            if end is not None and header.last_offset >= end:
                break
            while hidden and hidden[0][1] <= header.last_offset:
                aborting.add(hidden.pop(0)[0])
            if header.is_control:
                for record in decode_batch(batch):
                    if record.key is not None and record.key[3] == 0:
                        aborting.discard(header.producer_id)
                continue
            if not (committed and header.is_transactional and header.producer_id in aborting):
                found += decode_batch(batch)
        return found

    def table(self, end: int | None = None) -> dict[str, str]:
        """Return the last values that a read_committed consumer sees, at the end or before an offset."""
        known: dict[str, str] = {}
        for record in self.records(committed=True, end=end):
            assert record.key is not None
            if record.value is None:
                known.pop(record.key.decode(), None)
            else:
                known[record.key.decode()] = record.value.decode()
        return known

    def names(self) -> list[str]:
        return self.disk.list(f"{FOLDER}/{PARTITION}")
