from pathlib import Path

import pytest

from penstock.actions.errors import ActionError
from penstock_console import history
from penstock_console.history import FINE, SERIES_MAX, History
from penstock_console.history_file import HistoryFile

STEP = FINE.step_ms
START = 1_764_000_000_000


def test_samples_are_returned_with_their_times() -> None:
    found = History()
    for at in range(3):
        found.add(START + at * STEP, {"group.lag:a": float(at)})
    step, times, series = found.read(["group.lag:a", "group.lag:b"], "15m")
    assert (step, times[-1], len(times)) == (STEP, START + 2 * STEP, 180)
    assert series["group.lag:a"][-3:] == [0.0, 1.0, 2.0]
    assert set(series["group.lag:b"]) == {None}


def test_a_missed_step_has_no_sample() -> None:
    found = History()
    found.add(START, {"a": 1.0})
    found.add(START + 3 * STEP, {"a": 2.0})
    assert found.read(["a"], "15m")[2]["a"][-4:] == [1.0, None, None, 2.0]


def test_a_long_gap_clears_the_ring() -> None:
    found = History()
    found.add(START, {"a": 1.0})
    found.add(START + 10 * 3_600_000, {"a": 2.0})
    values = found.read(["a"], "1h")[2]["a"]
    assert values[-1] == 2.0 and set(values[:-1]) == {None}


def test_nothing_is_returned_before_the_first_sample() -> None:
    assert History().read(["a"], "1h") == (STEP, [], {"a": []})


def test_the_trend_is_the_change_per_second() -> None:
    found = History()
    assert found.trend("a") is None
    for at in range(5):
        found.add(START + at * STEP, {"a": 100.0 - 10 * at})
    assert found.trend("a") == pytest.approx(-2.0)


def test_series_that_no_longer_exist_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SERIES_MAX", 2)
    found = History()
    found.add(START, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert found.latest("c") is None
    found.add(START + 25 * 3_600_000, {"c": 1.0})
    assert found.latest("c") == 1.0


def test_series_without_room_cost_little() -> None:
    found = History()
    values = {f"topic.rate:{number}": 1.0 for number in range(SERIES_MAX + 50_000)}
    for at in range(1, 4):
        found.add(START + at * STEP, values)
    assert found.latest("topic.rate:0") == 1.0
    assert found.latest(f"topic.rate:{SERIES_MAX}") is None


def test_the_age_of_an_offset_is_interpolated() -> None:
    found = History()
    place = ("orders", 0)
    assert found.age_s(place, 5, START) is None
    found.add_ends(START, {place: 0})
    found.add_ends(START + 10_000, {place: 100})
    assert found.age_s(place, 50, START + 20_000) == pytest.approx(15.0)
    assert found.age_s(place, 100, START + 20_000) == 0.0


def test_the_age_of_an_offset_before_the_first_sample_is_not_known() -> None:
    found = History()
    found.add_ends(START, {("orders", 0): 50})
    assert found.age_s(("orders", 0), 10, START + 5_000) is None


def test_a_log_that_does_not_grow_needs_two_samples() -> None:
    found = History()
    place = ("orders", 0)
    for at in range(100):
        found.add_ends(START + at * STEP, {place: 10})
    found.add_ends(START + 100 * STEP, {place: 11})
    age = found.age_s(place, 10, START + 100 * STEP)
    assert age is not None and age <= STEP / 1000


def test_a_file_keeps_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "history"
    first = History(HistoryFile(path, "local"))
    first.add(START, {"a": 1.0})
    first.add(START + STEP, {"a": 2.0})
    first.close()
    other = History(HistoryFile(path, "other"), now_ms=START + STEP)
    again = History(HistoryFile(path, "local"), now_ms=START + STEP)
    assert again.read(["a"], "15m")[2]["a"][-2:] == [1.0, 2.0]
    assert other.latest("a") is None
    other.close()
    again.close()


def test_a_file_that_is_no_history_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("This is a text file, and certainly no database. " * 10)
    with pytest.raises(ActionError, match="Cannot use the history file"):
        HistoryFile(path, "local")
