import pytest

from penstock.storage.marker import SIZE, Marker, encode_marker, read_marker
from penstock.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, crc_ok
from penstock.wire.records import Record, decode_batch, encode_batch


def marker(*, commit: bool = True, coordinator_epoch: int = 5, broker_time: bool = False) -> bytearray:
    return encode_marker(
        producer_id=7,
        producer_epoch=3,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        now_ms=99,
        broker_time=broker_time,
    )


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_has_kafkas_layout(commit: bool) -> None:
    batch = marker(commit=commit)
    header = BatchHeader.at(batch)
    assert len(batch) == SIZE == header.size and crc_ok(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 3, -1, 1)
    assert header.attributes == TRANSACTIONAL | CONTROL
    (record,) = decode_batch(batch)
    assert record.key == bytes.fromhex("0000 0001" if commit else "0000 0000")
    assert record.value == bytes.fromhex("0000 00000005")
    assert record.timestamp == 99


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_back(commit: bool) -> None:
    assert read_marker(marker(commit=commit, coordinator_epoch=12)) == Marker(commit, 12)


def test_a_marker_with_log_append_time_has_the_attribute() -> None:
    assert BatchHeader.at(marker(broker_time=True)).is_log_append_time


def test_a_marker_of_another_shape_is_read_by_its_record() -> None:
    key, value = bytes.fromhex("0000 0001"), bytes.fromhex("0001 00000009 00")
    batch = encode_batch([Record(key=key, value=value)], producer_id=7, producer_epoch=3, is_control=True)
    assert read_marker(batch) == Marker(True, 9)


@pytest.mark.parametrize(
    "record", [Record(key=bytes.fromhex("0000 0002"), value=b"\0" * 6), Record(key=b"\0", value=b""), Record(key=None)]
)
def test_other_control_records_are_not_markers(record: Record) -> None:
    assert read_marker(encode_batch([record], is_control=True)) is None


def test_a_batch_that_cannot_be_decoded_is_not_a_marker() -> None:
    assert read_marker(marker()[:70]) is None


def test_a_marker_in_another_layout_is_read() -> None:
    other = encode_batch(
        [
            Record(
                timestamp=99,
                key=bytes.fromhex("0000 0001"),
                value=bytes.fromhex("0000 00000009"),
                headers=((b"", b""),),
            )
        ],
        producer_id=7,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
    )
    assert read_marker(other) == Marker(True, 9)
    same_size = bytearray(marker())
    same_size[61] ^= 2
    assert read_marker(same_size) is None
