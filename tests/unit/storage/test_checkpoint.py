import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.storage.checkpoint import encode_offsets_job, read_offsets, write_offsets
from penstock_sim.disk import SimDisk

OFFSETS = {
    TopicPartition(TopicName("orders"), PartitionIndex(0)): 12,
    TopicPartition(TopicName("orders"), PartitionIndex(10)): 7,
    TopicPartition(TopicName("a.b_c-d"), PartitionIndex(2)): 1 << 40,
}


def test_written_offsets_are_read() -> None:
    disk = SimDisk()
    write_offsets(disk, "/points", OFFSETS)
    assert read_offsets(disk, "/points") == OFFSETS


def test_offsets_are_encoded_in_slices_in_the_order_of_topics_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.checkpoint.ENTRIES_PER_SLICE", 2)
    offsets = {
        TopicPartition(TopicName(topic), PartitionIndex(index)): index + 1 for index in (10, 9, 0) for topic in "ba"
    }
    job = encode_offsets_job(offsets)
    steps = 0
    while True:
        try:
            next(job)
        except StopIteration as end:
            content: bytes = end.value
            break
        steps += 1
    lines = content.decode().splitlines()
    assert lines[:-1] == ["0", "7", "a 0 1", "a 9 10", "a 10 11", "b 0 1", "b 9 10", "b 10 11"]
    assert steps == 6
    disk = SimDisk()
    disk.replace_file("/points", content)
    assert read_offsets(disk, "/points") == offsets, "the checksum is that of all lines"


def test_a_file_written_by_kafka_is_read() -> None:
    disk = SimDisk()
    disk.replace_file("/points", b"0\n2\norders 0 12\norders 10 7\n")
    assert read_offsets(disk, "/points") == {
        TopicPartition(TopicName("orders"), PartitionIndex(0)): 12,
        TopicPartition(TopicName("orders"), PartitionIndex(10)): 7,
    }


def test_a_missing_file_means_no_offsets() -> None:
    assert read_offsets(SimDisk(), "/points") == {}


@given(st.integers(0, 200), st.integers(0, 7))
def test_a_flipped_bit_never_changes_an_offset(position: int, bit: int) -> None:
    disk = SimDisk()
    write_offsets(disk, "/points", OFFSETS)
    disk.flip("/points", position % len(disk.read_file("/points")), 1 << bit)
    found = read_offsets(disk, "/points")
    assert all(
        found[topic_partition] == offset for topic_partition, offset in OFFSETS.items() if topic_partition in found
    )
