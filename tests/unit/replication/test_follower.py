import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.replication.follower import CONTINUE, Kind, Step, loses_committed, on_divergence, on_error
from penstock.storage.epoch_cache import EpochCache
from penstock_sim.disk import SimDisk

OUT_OF_RANGE, NOT_LEADER, FENCED, STORAGE = 1, 6, 74, 56


class Own:
    def __init__(self, *epochs: tuple[int, int], end: int, start: int = 0) -> None:
        self.start_offset = start
        self.end_offset = end
        self.cache = EpochCache(SimDisk(), "/data/a-0")
        for epoch, offset in epochs:
            self.cache.assign(epoch, offset)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return self.cache.end_of(epoch, self.end_offset)


def test_a_shared_epoch_is_truncated_to_the_smaller_end() -> None:
    own = Own((0, 0), (3, 10), end=25)
    assert on_divergence(own, epoch=3, end_offset=20) == Step(Kind.TRUNCATE, 20)
    assert on_divergence(own, epoch=0, end_offset=8) == Step(Kind.TRUNCATE, 8)
    assert on_divergence(own, epoch=0, end_offset=12) == Step(Kind.TRUNCATE, 10)


def test_a_log_without_the_epoch_is_truncated_to_the_end_of_the_previous_epoch() -> None:
    own = Own((0, 0), (5, 10), end=25)
    assert on_divergence(own, epoch=3, end_offset=20) == Step(Kind.TRUNCATE, 10)


def test_a_divergence_after_the_log_end_truncates_nothing() -> None:
    assert on_divergence(Own((0, 0), end=5), epoch=0, end_offset=9) == CONTINUE


def test_a_divergence_before_the_log_start_restarts_the_log() -> None:
    own = Own((4, 50), end=60, start=50)
    assert on_divergence(own, epoch=3, end_offset=40) == Step(Kind.RESTART, 40)


def test_a_log_that_ends_before_the_leaders_start_restarts_there() -> None:
    assert on_error(Own((0, 0), end=5), OUT_OF_RANGE, leader_start=9, backoff_s=1.0) == Step(Kind.RESTART, 9)


def test_an_empty_log_starts_at_the_leaders_start() -> None:
    assert on_error(Own(end=9, start=9), OUT_OF_RANGE, leader_start=4, backoff_s=1.0) == Step(Kind.RESTART, 4)


def test_an_unexplained_out_of_range_error_truncates_nothing() -> None:
    own = Own((0, 0), end=50)
    assert on_error(own, OUT_OF_RANGE, leader_start=4, backoff_s=1.0).kind is Kind.PAUSE
    assert on_error(own, OUT_OF_RANGE, leader_start=-1, backoff_s=1.0).kind is Kind.PAUSE


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED])
def test_errors_of_a_late_image_are_retried_soon(code: int) -> None:
    step = on_error(Own(end=0), code, leader_start=-1, backoff_s=1.0)
    assert step.kind is Kind.PAUSE
    assert step.pause_s < 0.1


def test_other_errors_are_retried_after_the_configured_backoff() -> None:
    assert on_error(Own(end=0), STORAGE, leader_start=-1, backoff_s=1.0) == Step(Kind.PAUSE, pause_s=1.0)


# A log is a list of the epochs of its records. The two logs share a prefix and then diverge.
parted = st.tuples(
    st.lists(st.integers(0, 3), max_size=6),
    st.lists(st.integers(4, 9), max_size=6),
    st.lists(st.integers(4, 9), max_size=6),
).map(lambda parts: (sorted(parts[0]), sorted(parts[1]), sorted(parts[2])))


def of(records: list[int]) -> Own:
    starts: dict[int, int] = {}
    for offset, epoch in enumerate(records):
        starts.setdefault(epoch, offset)
    return Own(*starts.items(), end=len(records))


@given(parted)
def test_truncation_ends_at_the_divergence_and_keeps_the_shared_prefix(parts: tuple[list[int], ...]) -> None:
    """One leader writes each epoch, so equal epochs at equal offsets mean equal records."""
    shared, led, followed = parts
    # The same epoch in both diverging parts would mean two leaders in one epoch.
    followed = [epoch for epoch in followed if epoch not in led]
    leader, records = of([*shared, *led, 10]), [*shared, *followed]
    for _ in range(len(records) + 1):
        own = of(records)
        last = records[-1] if records else -1
        if last < 0:
            break
        epoch, end_offset = leader.epoch_end(last)
        if epoch == last and end_offset >= len(records):
            break
        step = on_divergence(own, epoch=epoch, end_offset=end_offset)
        assert step.kind in (Kind.TRUNCATE, Kind.RESTART)
        assert step.offset < len(records)
        records = records[: step.offset]
    assert records == shared


@pytest.mark.parametrize(
    ("step", "start", "mark", "loses"),
    [
        (Step(Kind.TRUNCATE, 19), 0, 20, True),
        (Step(Kind.TRUNCATE, 20), 0, 20, False),
        (Step(Kind.RESTART, 5), 10, 20, True),
        (Step(Kind.RESTART, 40), 0, 20, False),
        # No record of this log is committed, or it is empty.
        (Step(Kind.RESTART, 5), 20, 20, False),
        (Step(Kind.RESTART, 5), 25, 25, False),
        (Step(Kind.PAUSE, 5), 0, 20, False),
        (CONTINUE, 0, 20, False),
    ],
)
def test_steps_that_would_remove_committed_records_are_recognized(
    step: Step, start: int, mark: int, loses: bool
) -> None:
    assert loses_committed(step, Own((0, 0), start=start, end=25), mark) == loses
