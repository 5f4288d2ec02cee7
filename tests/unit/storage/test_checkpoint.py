from hypothesis import given
from hypothesis import strategies as st

from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.storage.checkpoint import read_offsets, write_offsets
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
