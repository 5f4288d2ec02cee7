from hypothesis import given
from hypothesis import strategies as st

from penstock.storage import retention_clock
from penstock.storage.retention_clock import DOUBT_MS_MAX, TOLERANCE_MS, RetentionClock
from penstock_sim.disk import SimDisk

NOW_MS = 1_700_000_000_000
HOUR_MS = 3600 * 1000
YEAR_MS = 365 * 24 * HOUR_MS


def test_a_steady_clock_is_followed() -> None:
    clock = RetentionClock(None, monotonic_ms=0)
    for second in range(5):
        assert clock.read(wall_ms=NOW_MS + second * 1000, monotonic_ms=second * 1000) == NOW_MS + second * 1000


def test_a_small_correction_is_followed() -> None:
    clock = RetentionClock(NOW_MS, monotonic_ms=0)
    assert clock.read(wall_ms=NOW_MS + TOLERANCE_MS, monotonic_ms=0) == NOW_MS + TOLERANCE_MS


def test_a_step_back_is_followed_immediately() -> None:
    clock = RetentionClock(NOW_MS, monotonic_ms=0)
    assert clock.read(wall_ms=NOW_MS - YEAR_MS, monotonic_ms=1000) == NOW_MS - YEAR_MS
    assert not clock.is_doubtful


def test_a_jump_forward_does_not_age_records() -> None:
    clock = RetentionClock(None, monotonic_ms=0)
    clock.read(wall_ms=NOW_MS, monotonic_ms=0)
    assert clock.read(wall_ms=NOW_MS + YEAR_MS, monotonic_ms=1000) == NOW_MS + 1000
    assert clock.is_doubtful
    assert clock.read(wall_ms=NOW_MS + 2000, monotonic_ms=2000) == NOW_MS + 2000
    assert not clock.is_doubtful


def test_a_jump_is_accepted_once_it_has_lasted_as_long_as_its_size() -> None:
    clock = RetentionClock(NOW_MS, monotonic_ms=0)
    assert clock.read(wall_ms=NOW_MS + HOUR_MS, monotonic_ms=0) == NOW_MS
    almost = HOUR_MS - 1
    assert clock.read(wall_ms=NOW_MS + HOUR_MS + almost, monotonic_ms=almost) == NOW_MS + almost
    assert clock.read(wall_ms=NOW_MS + 2 * HOUR_MS, monotonic_ms=HOUR_MS) == NOW_MS + 2 * HOUR_MS


def test_every_jump_is_accepted_after_a_day() -> None:
    clock = RetentionClock(NOW_MS, monotonic_ms=0)
    clock.read(wall_ms=NOW_MS + YEAR_MS, monotonic_ms=0)
    assert clock.read(wall_ms=NOW_MS + YEAR_MS, monotonic_ms=DOUBT_MS_MAX) == NOW_MS + YEAR_MS


@given(st.lists(st.tuples(st.integers(0, HOUR_MS), st.integers(-YEAR_MS, YEAR_MS)), max_size=20))
def test_the_clock_is_never_ahead_of_the_wall_clock_and_never_jumps_with_it(steps: list[tuple[int, int]]) -> None:
    clock = RetentionClock(None, monotonic_ms=0)
    monotonic_ms, before = 0, clock.read(wall_ms=NOW_MS, monotonic_ms=0)
    for elapsed_ms, off_ms in steps:
        monotonic_ms += elapsed_ms
        wall_ms = NOW_MS + monotonic_ms + off_ms
        was_doubtful = clock.is_doubtful
        now_ms = clock.read(wall_ms=wall_ms, monotonic_ms=monotonic_ms)
        assert now_ms <= wall_ms
        if not was_doubtful:
            assert now_ms <= before + elapsed_ms + TOLERANCE_MS
        before = now_ms


def test_a_restart_under_a_wrong_clock_is_a_jump_too() -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    retention_clock.save(disk, "/data", NOW_MS)
    retention_clock.save(disk, "/data", NOW_MS + 5)
    clock = RetentionClock(retention_clock.load(disk, "/data"), monotonic_ms=77)
    assert clock.read(wall_ms=NOW_MS + YEAR_MS, monotonic_ms=77) == NOW_MS + 5


def test_an_unreadable_file_is_ignored() -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    assert retention_clock.load(disk, "/data") is None
    for content in (b"", b"1\n5\n", b"0\nx\n", b"0\n5"):
        disk.replace_file("/data/retention-clock", content)
        assert retention_clock.load(disk, "/data") is None
