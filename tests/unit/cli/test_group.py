from typing import Any

import pytest

from penstock.actions.errors import ActionError
from penstock.actions.offset_reset import ShiftBy, Target
from penstock.actions.positions import AtOffset, AtTime, Earliest, Latest
from penstock.cli.errors import CommandError
from penstock.cli.group import parse_target

NOTHING: dict[str, Any] = {
    "to_earliest": False, "to_latest": False, "to_offset": None, "to_datetime": None, "to_timestamp": None,
    "shift_by": None, "now_ms": 1_000_000,
}  # fmt: skip


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
def test_each_target_is_parsed(given: dict[str, Any], target: Target) -> None:
    assert parse_target(**NOTHING | given) == target


@pytest.mark.parametrize("given", [{}, {"to_earliest": True, "shift_by": 1}])
def test_there_is_exactly_one_target(given: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="exactly one of --to-earliest"):
        parse_target(**NOTHING | given)


@pytest.mark.parametrize("text", ["latest", "42", "tomorrow"])
def test_to_datetime_rejects_other_positions(text: str) -> None:
    with pytest.raises(ActionError, match=f"Invalid time '{text}'"):
        parse_target(**NOTHING | {"to_datetime": text})
