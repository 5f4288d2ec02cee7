import pytest

from penstock.actions.errors import ActionError
from penstock.actions.offset_reset import PartitionState, ShiftBy, Target, parse_topic_partitions, plan_reset
from penstock.actions.positions import AtOffset, AtTime, Earliest, Latest

STATE = PartitionState("orders", 0, committed=50, earliest=10, latest=100, at_time=70)


def test_a_topic_is_parsed_with_or_without_partitions() -> None:
    assert parse_topic_partitions(["a", "b:0,2", "b:5"]) == {"a": None, "b": {0, 2, 5}}
    assert parse_topic_partitions(["a", "a:0"]) == {"a": None}


@pytest.mark.parametrize("text", ["", ":0", "a:", "a:x", "a:1,"])
def test_an_invalid_topic_is_rejected(text: str) -> None:
    with pytest.raises(ActionError, match="orders:0,2"):
        parse_topic_partitions([text])


@pytest.mark.parametrize(
    ("target", "new"),
    [(Earliest(), 10), (Latest(), 100), (AtOffset(33), 33), (AtTime(1), 70), (ShiftBy(-20), 30), (ShiftBy(5), 55)],
)
def test_each_target_has_its_offset(target: Target, new: int) -> None:
    move = plan_reset(STATE, target)
    assert (move.current, move.new, move.note) == (50, new, "")


@pytest.mark.parametrize(
    ("target", "new"), [(AtOffset(5), 10), (AtOffset(500), 100), (ShiftBy(-90), 10), (ShiftBy(90), 100)]
)
def test_an_offset_outside_the_log_is_moved_to_the_nearest_end(target: Target, new: int) -> None:
    move = plan_reset(STATE, target)
    assert move.new == new
    assert "is outside 10 to 100" in move.note


def test_a_time_after_the_last_record_is_the_end() -> None:
    move = plan_reset(STATE._replace(at_time=None), AtTime(1))
    assert (move.new, move.note) == (100, "no record is that new: moved to the end")


def test_a_shift_needs_a_committed_offset() -> None:
    with pytest.raises(ActionError, match="Cannot shift the offset of orders-0: the group has committed none"):
        plan_reset(STATE._replace(committed=None), ShiftBy(1))
