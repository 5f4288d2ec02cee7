"""The batch header is read, patched and resealed in place."""

import pytest

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.wire import batch
from penstock.wire.batch import BatchHeader
from penstock.wire.records import Record, decode_batch, encode_batch


def sealed(count: int = 3, **options: int | bool) -> bytearray:
    records = [Record(timestamp=1000 + index, value=b"v%d" % index) for index in range(count)]
    return bytearray(encode_batch(records, **options))  # type: ignore[arg-type]


def test_every_field_is_at_the_position_of_its_constant() -> None:
    data = sealed(base_offset=7, leader_epoch=3, producer_id=11, producer_epoch=2, base_sequence=5)
    header = BatchHeader.at(data)
    for name in batch.FIELDS:
        position = getattr(batch, f"{name.upper()}_AT")
        size = {"attributes": 2, "producer_epoch": 2, "magic": 1}.get(name, 4)
        if name in ("base_offset", "base_timestamp", "max_timestamp", "producer_id"):
            size = 8
        value = int.from_bytes(data[position : position + size], "big", signed=name != "crc")
        assert value == getattr(header, name), name


def test_the_tuple_and_the_object_agree() -> None:
    data = b"before" + bytes(sealed(base_offset=99))
    header = BatchHeader.at(data, 6)
    assert batch.unpack_header(data, 6) == tuple(getattr(header, name) for name in batch.FIELDS)
    assert header.pack() == data[6 : 6 + batch.HEADER_SIZE]
    assert "base_offset=99" in repr(header)


def test_derived_values_follow_from_the_header() -> None:
    data = sealed(base_offset=10, base_sequence=2**31 - 2, producer_id=1, producer_epoch=0)
    header = BatchHeader.at(data)
    assert (header.size, header.last_offset, header.next_offset) == (len(data), 12, 13)
    assert header.last_sequence == 0, "sequences wrap from the largest to zero"
    assert BatchHeader.at(sealed()).last_sequence == -1


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({}, 0),
        ({"codec": 4}, 4),
        ({"timestamp_type": 1}, batch.LOG_APPEND_TIME),
        ({"is_transactional": True}, batch.TRANSACTIONAL),
        ({"is_control": True}, batch.CONTROL),
    ],
)
def test_attributes_are_read_one_by_one(options: dict[str, int], attributes: int) -> None:
    header = BatchHeader.at(sealed(**options))
    assert header.attributes == attributes
    assert header.codec == attributes & 7
    assert header.is_log_append_time == bool(attributes & 8)
    assert header.is_transactional == bool(attributes & 16)
    assert header.is_control == bool(attributes & 32)
    assert header.delete_horizon_ms is None


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    header = BatchHeader.at(sealed())
    header.attributes |= batch.DELETE_HORIZON
    assert header.delete_horizon_ms == 1000


def test_offsets_and_epochs_are_assigned_without_a_new_checksum() -> None:
    data = sealed()
    assert batch.crc_ok(data)
    batch.patch_offset_and_epoch(memoryview(data), 0, 2**40, 17)
    header = BatchHeader.at(data)
    assert (header.base_offset, header.leader_epoch) == (2**40, 17)
    assert batch.crc_ok(data)
    assert [record.offset for record in decode_batch(data)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_a_batch_is_patched_at_its_position_in_a_larger_buffer() -> None:
    data = bytearray(b"xyz") + sealed() + bytearray(b"tail")
    size = batch.batch_size(data, 3)
    batch.patch_offset_and_epoch(data, 3, 5, 1)
    batch.set_log_append_time(data, 777, 3, size)
    assert data[:3] == b"xyz"
    assert data[-4:] == b"tail"
    assert batch.crc_ok(data, 3, size)
    assert BatchHeader.at(data, 3).max_timestamp == 777


def test_log_append_time_is_set_and_the_checksum_recomputed() -> None:
    data = sealed()
    batch.set_log_append_time(data, 5_000)
    assert batch.crc_ok(data)
    assert BatchHeader.at(data).is_log_append_time
    assert {record.timestamp for record in decode_batch(data)} == {5_000}


@pytest.mark.parametrize("position", [21, 22, 30, 60, 61, -1])
def test_a_flipped_bit_fails_the_checksum(position: int) -> None:
    data = sealed()
    data[position] ^= 1
    assert not batch.crc_ok(data)


@pytest.mark.parametrize("length", [-1, 0, 48, 10_000, 2**31 - 1])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    data = sealed()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptMessage):
        batch.batch_size(data)
    with pytest.raises(CorruptMessage):
        list(batch.iter_batches(data))


@pytest.mark.parametrize("size", [0, 1, 11, 12, 60])
def test_too_few_bytes_for_a_header_are_corrupt(size: int) -> None:
    with pytest.raises(CorruptMessage):
        BatchHeader.at(bytes(size))
    with pytest.raises(CorruptMessage):
        batch.batch_size(sealed()[:size])


def test_another_message_format_is_invalid() -> None:
    data = sealed()
    batch.check_magic(data)
    data[batch.MAGIC_AT] = 1
    with pytest.raises(InvalidRecord, match="v1"):
        batch.check_magic(data)


def test_consecutive_batches_are_split() -> None:
    run = [sealed(count) for count in (1, 2, 3)]
    assert list(batch.iter_batches(b"".join(run))) == run
    assert list(batch.iter_batches(b"")) == []


def test_a_partial_batch_at_the_end_is_ignored_only_if_allowed() -> None:
    whole, cut = sealed(1), sealed(2)
    for left in range(1, len(cut)):
        data = whole + cut[:left]
        assert list(batch.iter_batches(data, allow_partial=True)) == [whole]
        with pytest.raises(CorruptMessage):
            list(batch.iter_batches(data))
