from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.progress import OffsetTracker


def test_without_records_there_is_nothing_to_commit() -> None:
    assert OffsetTracker().position_to_commit() is None


def test_the_lowest_unfinished_offset_holds_back_the_commit() -> None:
    progress = OffsetTracker()
    for offset in (5, 6, 7):
        progress.start(offset)
    progress.finish(7)
    progress.finish(6)
    assert progress.position_to_commit() is None
    progress.finish(5)
    assert progress.position_to_commit() == 8


def test_gaps_between_offsets_are_skipped() -> None:
    progress = OffsetTracker()
    progress.start(3)
    progress.start(9)
    progress.finish(3)
    assert progress.position == 9


def test_an_offset_is_returned_once_and_again_after_a_failed_commit() -> None:
    progress = OffsetTracker()
    progress.start(0)
    progress.finish(0)
    assert progress.position_to_commit() == 1
    progress.mark_sent(1)
    assert progress.position_to_commit() is None
    progress.not_committed()
    assert progress.position_to_commit() == 1


def test_a_second_finish_changes_nothing() -> None:
    progress = OffsetTracker()
    progress.start(0)
    progress.start(1)
    progress.finish(0)
    progress.finish(0)
    assert progress.position == 1


def test_offsets_that_restart_are_detected() -> None:
    progress = OffsetTracker()
    progress.start(10)
    assert progress.is_past(10)
    assert not progress.is_past(11)


@given(st.lists(st.integers(0, 10_000), unique=True, min_size=1), st.randoms(use_true_random=False))
def test_no_unfinished_record_is_ever_committed_in_any_order_of_finishing(offsets: list[int], random: object) -> None:
    progress = OffsetTracker()
    rising = sorted(offsets)
    for offset in rising:
        progress.start(offset)
    left = set(rising)
    last = progress.position or 0
    shuffled = list(rising)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for offset in shuffled:
        progress.finish(offset)
        left.remove(offset)
        position = progress.position
        assert position == (min(left) if left else rising[-1] + 1)
        assert position >= last
        last = position
