"""Tests of the comparison of separately compacted replicas."""

from penstock.storage.marker import encode_marker
from penstock.wire.records import Record, encode_batch
from penstock_sim.tables import differences


def batch(offset: int, key: bytes, value: bytes | None, *, producer: int = -1) -> bytes:
    return encode_batch(
        [Record(offset=offset, key=key, value=value)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        is_transactional=producer >= 0,
    )


def _marker(offset: int, *, commit: bool) -> bytes:
    sealed = encode_marker(
        producer_id=7, producer_epoch=0, commit=commit, coordinator_epoch=0, now_ms=0, broker_time=False
    )
    return offset.to_bytes(8, "big") + bytes(sealed[8:])


FIRST, SECOND = batch(0, b"k", b"1"), batch(1, b"k", b"2")


def test_a_record_that_only_one_replica_has_dropped_is_not_a_difference() -> None:
    assert differences([FIRST + SECOND, SECOND]) is None
    assert differences([FIRST + batch(1, b"k", None), batch(2, b"other", None)]) is None


def test_a_lost_value_and_a_changed_one_are_differences() -> None:
    assert differences([FIRST + SECOND, FIRST]) is not None
    assert differences([SECOND, batch(1, b"k", b"3")]) is not None


def test_aborted_records_are_ignored_whether_they_still_exist_or_not() -> None:
    abort = _marker(2, commit=False)
    assert differences([FIRST + batch(1, b"k", b"2", producer=7) + abort, FIRST]) is None
    assert differences([FIRST + batch(1, b"k", b"2", producer=7) + _marker(2, commit=True), FIRST]) is not None
