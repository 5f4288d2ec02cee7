import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Corruption, InvalidProducerEpoch, OutOfOrderSequence
from penstock.storage.producer_state import SEQUENCE_MASK, ProducerState

PRODUCER = 7


def state_after(counts: list[int], *, first: int = 0, epoch: int = 0) -> ProducerState:
    """Return a state after batches of these record counts."""
    state = ProducerState()
    sequence, offset = first, 100
    for count in counts:
        state.batch_appended(PRODUCER, epoch, sequence, offset, offset + count - 1, 5000 + offset, now_ms=1)
        sequence = (sequence + count) & SEQUENCE_MASK
        offset += count
    return state


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert ProducerState().check(PRODUCER, 3, 17, 17) is None


def test_the_next_sequence_is_accepted() -> None:
    assert state_after([2, 3]).check(PRODUCER, 0, 5, 9) is None


def test_duplicates_of_the_last_five_batches_are_recognized() -> None:
    state = state_after([1, 2, 3, 4, 5, 6])
    found = state.check(PRODUCER, 0, 1, 2)
    assert found is not None
    assert (found.base_offset, found.last_offset) == (101, 102)


def test_a_batch_older_than_five_is_out_of_order() -> None:
    with pytest.raises(OutOfOrderSequence):
        state_after([1, 2, 3, 4, 5, 6]).check(PRODUCER, 0, 0, 0)


def test_a_gap_is_out_of_order() -> None:
    with pytest.raises(OutOfOrderSequence):
        state_after([2]).check(PRODUCER, 0, 3, 3)


def test_a_batch_that_overlaps_a_known_one_is_out_of_order() -> None:
    with pytest.raises(OutOfOrderSequence):
        state_after([2, 3]).check(PRODUCER, 0, 2, 5)


def test_sequences_wrap_to_zero() -> None:
    state = state_after([4], first=SEQUENCE_MASK - 1)
    assert state.producers[PRODUCER].next_sequence == 2
    assert state.check(PRODUCER, 0, 2, 2) is None
    found = state.check(PRODUCER, 0, SEQUENCE_MASK - 1, 1)
    assert found is not None and found.base_offset == 100


def test_an_older_epoch_is_fenced() -> None:
    with pytest.raises(InvalidProducerEpoch):
        state_after([1], epoch=2).check(PRODUCER, 1, 0, 0)


def test_a_newer_epoch_starts_at_zero() -> None:
    state = state_after([1], epoch=2)
    assert state.check(PRODUCER, 3, 0, 0) is None
    with pytest.raises(OutOfOrderSequence):
        state.check(PRODUCER, 3, 1, 1)


def test_a_newer_epoch_drops_the_batches_of_the_older_one() -> None:
    state = state_after([1, 1], epoch=2)
    state.batch_appended(PRODUCER, 3, 0, 200, 200, 1, now_ms=1)
    assert len(state.producers[PRODUCER].batches) == 1


def test_without_an_epoch_only_an_identical_batch_is_a_duplicate() -> None:
    state = state_after([2, 3], epoch=-1)
    assert state.check(PRODUCER, -1, 40, 40) is None
    assert state.check(PRODUCER, 0, 40, 40) is None
    found = state.check(PRODUCER, -1, 2, 4)
    assert found is not None and found.base_offset == 102


def test_checking_changes_nothing() -> None:
    state = state_after([2, 3])
    before = state.encode()
    state.check(PRODUCER, 0, 5, 5)
    state.check(PRODUCER, 9, 0, 0)
    assert state.encode() == before


def test_idle_producers_expire_by_the_brokers_clock() -> None:
    state = state_after([1])
    assert state.expire(now_ms=1000, expiration_ms=999) == 0
    assert state.expire(now_ms=1002, expiration_ms=1000) == 1
    assert len(state) == 0


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=8), max_size=4))
def test_a_snapshot_keeps_everything_that_answers_depend_on(producers: list[list[int]]) -> None:
    state = ProducerState()
    offset = 0
    for producer_id, counts in enumerate(producers):
        sequence = 0
        for count in counts:
            state.batch_appended(producer_id, 1, sequence, offset, offset + count - 1, 9, now_ms=1)
            sequence, offset = sequence + count, offset + count
    loaded = ProducerState()
    loaded.decode(state.encode(), now_ms=1)
    assert {each.producer_id: (each.epoch, each.next_sequence, list(each.batches)) for each in loaded} == {
        each.producer_id: (each.epoch, each.next_sequence, list(each.batches)) for each in state
    }


def test_a_snapshot_has_kafkas_layout() -> None:
    state = ProducerState()
    state.batch_appended(1, 2, 3, 10, 14, 99, now_ms=1)
    content = state.encode()
    assert content[:2] == bytes.fromhex("0001")
    assert content[6:] == bytes.fromhex(
        "00000001 0000000000000001 0002 00000007 000000000000000e 00000004 0000000000000063 ffffffff ffffffffffffffff"
    )


@given(st.integers(0, 71), st.integers(1, 255))
def test_any_damage_to_a_snapshot_is_noticed(position: int, mask: int) -> None:
    content = bytearray(state_after([2, 3]).encode())
    content[position % len(content)] ^= mask
    with pytest.raises(Corruption):
        ProducerState().decode(bytes(content), now_ms=1)


def test_half_a_snapshot_is_damaged() -> None:
    content = state_after([2]).encode()
    for size in range(len(content)):
        with pytest.raises(Corruption):
            ProducerState().decode(content[:size], now_ms=1)
