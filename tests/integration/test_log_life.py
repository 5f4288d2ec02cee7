"""Tests of retention and compaction on a running broker, with settings that change and with failures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from penstock.testing import BrokerProcess
from tests.support.eventually import eventually
from tests.support.folder_size import sizes

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
MIB = 1 << 20
HOUR_MS = 3_600_000
CHILD = b"penstock.storage.compaction.child"
# The size of a partition with 1 KB values and some hundred keys if only its active segment is not compacted.
COMPACTED_SIZE = 2 * MIB


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(SETTINGS, data=tmp_path / "data") as running:
        yield running


class Topic:
    """One partition, the records written to it, and its files."""

    def __init__(self, broker: BrokerProcess, name: str, **config: str) -> None:
        self.name = name
        self.broker = broker
        self.place = TopicPartition(name, 0)
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(60)
        self.folder = broker.data / f"{name}-0"
        self.table: dict[bytes, bytes] = {}

    def write(self, count: int, *, keys: int = 100, first: int = 0, age_ms: int = 0) -> None:
        """Write values of 1 KB."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "acks": "all", "linger.ms": 5})
        timestamp = int(time.time() * 1000) - age_ms
        for number in range(first, first + count):
            key, value = b"k%d" % (number % keys), b"%d " % number + os.urandom(1000)
            producer.produce(self.name, key=key, value=value, timestamp=timestamp)
            self.table[key] = value
            producer.poll(0)
        assert producer.flush(60) == 0

    def set(self, **config: str) -> None:
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def bounds(self) -> tuple[int, int]:
        """Return the start and end offsets, as seen by a consumer."""
        with consumer_of(self.broker) as consumer:
            return consumer.get_watermark_offsets(self.place, timeout=60)

    def read(self) -> dict[int, tuple[bytes, bytes | None]]:
        """Return all records by offset."""
        found: dict[int, tuple[bytes, bytes | None]] = {}
        with consumer_of(self.broker) as consumer:
            start, end = consumer.get_watermark_offsets(self.place, timeout=60)
            consumer.assign([TopicPartition(self.name, 0, start)])
            deadline = time.monotonic() + 60
            while consumer.position([self.place])[0].offset < end and start < end:
                assert time.monotonic() < deadline, f"read {len(found)} records up to {max(found, default=-1)} of {end}"
                for message in consumer.consume(1000, timeout=0.2):
                    assert message.error() is None, message.error()
                    found[message.offset() or 0] = (message.key() or b"", message.value())
        return found

    def read_table(self) -> dict[bytes, bytes | None]:
        return {key: value for _, (key, value) in sorted(self.read().items())}

    @property
    def size(self) -> int:
        sizes = 0
        for path in self.folder.glob("*.log"):
            with contextlib.suppress(FileNotFoundError):
                sizes += path.stat().st_size
        return sizes

    @property
    def first_base(self) -> int:
        """Return the base offset of the oldest segment."""
        return min(int(path.stem) for path in self.folder.glob("*.log"))

    def until_size(self, *, below: int, seconds: float = 60) -> None:
        eventually(lambda: self.size < below, seconds_max=seconds)


@contextlib.contextmanager
def consumer_of(broker: BrokerProcess) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        yield consumer
    finally:
        consumer.close()


def compaction_child(broker: BrokerProcess) -> int | None:
    """Return the process id of the broker's compaction, if it runs."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and CHILD in (folder / "cmdline").read_bytes():
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == broker.pid:
                    return int(folder.name)
    return None


def test_retention_by_time_and_by_size_follows_settings_that_change(broker: BrokerProcess) -> None:
    topic = Topic(broker, "aging", segment_bytes=str(MIB), retention_ms="-1")
    topic.write(3000, age_ms=2 * HOUR_MS)
    # Enough to exceed a megabyte, wherever the segments end.
    topic.write(3500, first=3000)
    assert topic.bounds() == (0, 6500)
    topic.set(retention_ms=str(HOUR_MS))
    eventually(lambda: topic.bounds()[0] == topic.first_base > 0)
    eventually(lambda: len(list(topic.folder.glob("*.deleted"))) == 0)
    start, end = topic.bounds()
    # Whole segments: some old records share one with new ones, and stay.
    assert 1800 < start <= 3000 and end == 6500
    assert sorted(topic.read()) == list(range(start, 6500))
    topic.set(retention_bytes=str(MIB), retention_ms="-1")
    eventually(lambda: topic.size < 2 * MIB and topic.bounds()[0] == topic.first_base > start)
    assert topic.size >= MIB
    start, _ = topic.bounds()
    broker.kill()
    broker.start()
    # The visible state may not have been durable yet; the settings then produce it again.
    eventually(lambda: topic.bounds() == (start, 6500))
    # A segment without new writes is rolled by age, emptied and removed.
    topic.set(retention_ms="1", retention_bytes="-1")
    eventually(lambda: topic.bounds() == (6500, 6500))
    topic.until_size(below=1)
    broker.kill()
    broker.start()
    eventually(lambda: topic.bounds() == (6500, 6500))
    topic.set(retention_ms="-1")
    topic.write(10)
    assert sorted(topic.read()) == list(range(6500, 6510))


def test_segments_follow_segment_bytes_and_segment_ms_while_running(broker: BrokerProcess) -> None:
    topic = Topic(broker, "rolling", retention_ms="-1")

    def segments() -> int:
        return len(list(topic.folder.glob("*.log")))

    topic.write(2500)
    assert segments() == 1
    topic.set(segment_bytes=str(MIB))
    topic.write(2500)
    assert segments() >= 3
    assert sorted(path.stat().st_size for path in topic.folder.glob("*.log"))[-2] <= MIB
    topic.set(segment_bytes=str(64 * MIB), segment_ms="300")
    before = segments()
    written = 0

    def is_rolled_twice() -> bool:
        nonlocal written
        topic.write(1)
        written += 1
        return segments() >= before + 2

    eventually(is_rolled_twice)
    assert len(topic.read()) == 5000 + written


def test_compact_and_delete_together_keep_young_last_values_only(broker: BrokerProcess) -> None:
    topic = Topic(
        broker,
        "both",
        cleanup_policy="compact,delete",
        retention_ms="-1",
        segment_bytes=str(MIB),
        min_cleanable_dirty_ratio="0.01",
    )
    topic.write(3000, keys=2500, age_ms=2 * HOUR_MS)
    old = dict(topic.table)
    topic.table.clear()
    topic.write(6000, keys=100)
    topic.until_size(below=5 * MIB)
    # Nothing is old yet: the last values of old keys still exist.
    assert {**old, **topic.table} == topic.read_table()
    topic.set(retention_ms=str(HOUR_MS))
    topic.until_size(below=COMPACTED_SIZE + MIB)
    eventually(lambda: topic.bounds()[0] > 0)
    table = topic.read_table()
    assert {key: table[key] for key in topic.table} == topic.table
    # The remaining old records share a segment with new ones.
    assert len(table) < 1500
    start = topic.bounds()[0]
    # A segment is removed after the new log start offset is on disk.
    eventually(lambda: not (topic.folder / f"{0:020}.log").exists())
    broker.kill()
    broker.start()
    assert topic.bounds()[0] == start
    assert topic.read_table() == table


def test_a_compaction_that_is_killed_repeatedly_leaves_the_topic_readable_and_continues(tmp_path: Path) -> None:
    slow = {**SETTINGS, "log.cleaner.io.max.bytes.per.second": str(8 * MIB)}
    with BrokerProcess(slow, data=tmp_path / "data") as broker:
        topic = Topic(broker, "table", cleanup_policy="compact", segment_bytes=str(MIB), min_cleanable_dirty_ratio="1")
        topic.write(12_000)
        topic.set(min_cleanable_dirty_ratio="0.01")
        killed: set[int] = set()
        for _ in range(3):
            eventually(lambda: compaction_child(broker) not in (None, *killed))
            eventually(lambda: any(sizes(topic.folder, "*.cleaned") or ()), what="a pass")
            child = compaction_child(broker)
            assert child is not None
            os.kill(child, signal.SIGKILL)
            killed.add(child)
            assert topic.read_table() == topic.table
        topic.until_size(below=COMPACTED_SIZE)
        assert topic.read_table() == topic.table
        assert not list(topic.folder.glob("*.cleaned"))


def test_a_compaction_on_a_full_disk_waits_for_space(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("a small disk can only be mounted by root")
    try:
        with BrokerProcess(SETTINGS, data=disk / "data") as broker:
            topic = Topic(
                broker, "full", cleanup_policy="compact", segment_bytes=str(MIB), min_cleanable_dirty_ratio="1"
            )
            topic.write(10_000, keys=900)
            state = os.statvfs(disk)
            filler = disk / "filler"
            filler.write_bytes(bytes(state.f_bavail * state.f_frsize - 300_000))
            topic.set(min_cleanable_dirty_ratio="0.01")
            eventually(lambda: "waits for free space" in broker.log_path.read_text())
            assert topic.read_table() == topic.table
            size = topic.size
            assert size > 9 * MIB
            filler.unlink()
            topic.until_size(below=COMPACTED_SIZE + MIB)
            assert topic.read_table() == topic.table
            assert not list(topic.folder.glob("*.cleaned"))
            topic.write(10)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_deleted_topic_is_removed_from_disk_and_its_name_can_be_reused(broker: BrokerProcess) -> None:
    topic = Topic(broker, "gone", segment_bytes=str(MIB), file_delete_delay_ms="1500")
    topic.write(4000)
    topic.admin.delete_topics(["gone"])["gone"].result(60)
    renamed = list(broker.data.glob("gone-0.*-delete"))
    assert len(renamed) == 1 and not topic.folder.exists()
    again = Topic(broker, "gone")
    again.write(5)
    assert sorted(again.read()) == [0, 1, 2, 3, 4]
    eventually(lambda: not list(broker.data.glob("*-delete")))
    assert sorted(again.read()) == [0, 1, 2, 3, 4]


def test_files_pending_removal_are_removed_after_a_kill(broker: BrokerProcess) -> None:
    topic = Topic(broker, "gone", segment_bytes=str(MIB), file_delete_delay_ms="600000", retention_ms="-1")
    topic.write(4000)
    topic.set(retention_bytes=str(MIB))
    eventually(lambda: bool(list(topic.folder.glob("*.log.deleted"))))
    other = Topic(broker, "dropped", file_delete_delay_ms="600000")
    other.admin.delete_topics(["dropped"])["dropped"].result(60)
    assert list(broker.data.glob("dropped-0.*-delete"))
    start, _ = topic.bounds()
    broker.kill()
    broker.start()
    assert topic.bounds()[0] == start
    assert not list(topic.folder.glob("*.deleted"))
    eventually(lambda: not list(broker.data.glob("*-delete")))
