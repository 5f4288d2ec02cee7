from typing import Any

import pytest

from penstock.cli.errors import CommandError
from penstock.actions.positions import AtOffset, AtTime, Earliest, Latest
from penstock.actions.offset_reset import PartitionState, ShiftBy, Target, parse_target, parse_topics, plan_move

NOTHING: dict[str, Any] = {
    "to_earliest": False, "to_latest": False, "to_offset": None, "to_datetime": None, "to_timestamp": None,
    "shift_by": None, "now_ms": 1_000_000,
}  # fmt: skip
STATE = PartitionState("orders", 0, committed=50, earliest=10, latest=100, at_time=70)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"to_earliest": True}, Earliest()),
        ({"to_latest": True}, Latest()),
        ({"to_offset": 0}, AtOffset(0)),
        ({"to_timestamp": 5}, AtTime(5)),
        ({"shift_by": -3}, ShiftBy(-3)),
        ({"to_datetime": "1m"}, AtTime(940_000)),
        ({"to_datetime": "1970-01-01T00:00:01Z"}, AtTime(1000)),
    ],
)
def test_each_target_is_understood(given: dict[str, Any], target: Target) -> None:
    assert parse_target(**NOTHING | given) == target


@pytest.mark.parametrize("given", [{}, {"to_earliest": True, "shift_by": 1}])
def test_there_is_exactly_one_target(given: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="exactly one of --to-earliest"):
        parse_target(**NOTHING | given)


@pytest.mark.parametrize("text", ["latest", "42", "tomorrow"])
def test_what_is_no_time_is_refused_by_to_datetime(text: str) -> None:
    with pytest.raises(CommandError, match="--to-datetime does not understand"):
        parse_target(**NOTHING | {"to_datetime": text})


def test_topics_are_named_whole_or_by_partition() -> None:
    assert parse_topics(["a", "b:0,2", "b:5"]) == {"a": None, "b": {0, 2, 5}}
    assert parse_topics(["a", "a:0"]) == {"a": None}


@pytest.mark.parametrize("text", ["", ":0", "a:", "a:x", "a:1,"])
def test_what_names_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="orders:0,2"):
        parse_topics([text])


@pytest.mark.parametrize(
    ("target", "new"),
    [(Earliest(), 10), (Latest(), 100), (AtOffset(33), 33), (AtTime(1), 70), (ShiftBy(-20), 30), (ShiftBy(5), 55)],
)
def test_each_target_has_its_offset(target: Target, new: int) -> None:
    move = plan_move(STATE, target)
    assert (move.current, move.new, move.note) == (50, new, "")


@pytest.mark.parametrize(
    ("target", "new"), [(AtOffset(5), 10), (AtOffset(500), 100), (ShiftBy(-90), 10), (ShiftBy(90), 100)]
)
def test_what_lies_outside_the_log_goes_to_its_nearest_end(target: Target, new: int) -> None:
    move = plan_move(STATE, target)
    assert move.new == new
    assert "is outside 10 to 100" in move.note


def test_a_time_behind_the_last_record_is_the_end() -> None:
    move = plan_move(STATE._replace(at_time=None), AtTime(1))
    assert (move.new, move.note) == (100, "nothing is that new: at the end")


def test_a_shift_needs_something_to_count_from() -> None:
    with pytest.raises(CommandError, match="orders-0 has no committed offset to shift from"):
        plan_move(STATE._replace(committed=None), ShiftBy(1))
