from datetime import datetime

import pytest

from penstock.actions.errors import ActionError
from penstock.actions.positions import (
    AtOffset,
    AtTime,
    Earliest,
    Last,
    Latest,
    Position,
    parse_duration_ms,
    parse_position,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Earliest()),
        ("Latest", Latest()),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-10", Last(10)),
        ("@1700000000000", AtTime(1_700_000_000_000)),
        ("5m", AtTime(NOW_MS - 300_000)),
        ("2h", AtTime(NOW_MS - 7_200_000)),
        ("2023-11-14T22:13:20Z", AtTime(1_700_000_000_000)),
        ("2023-11-15T00:13:20+02:00", AtTime(1_700_000_000_000)),
    ],
)
def test_each_form_of_a_position_is_parsed(text: str, position: Position) -> None:
    assert parse_position(text, now_ms=NOW_MS) == position
    assert type(parse_position(text, now_ms=NOW_MS)) is type(position)


def test_a_time_without_a_zone_is_local_time() -> None:
    local = datetime(2023, 11, 14, 12, 0).astimezone()
    assert parse_position("2023-11-14T12:00", now_ms=NOW_MS) == AtTime(int(local.timestamp() * 1000))


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "--3", "2023-13-01"])
def test_an_invalid_position_is_rejected(text: str) -> None:
    with pytest.raises(ActionError, match="expected earliest, latest, an offset"):
        parse_position(text, now_ms=NOW_MS)


@pytest.mark.parametrize(("text", "milliseconds"), [("90s", 90_000), ("5m", 300_000), (" 1H ", 3_600_000), ("0ms", 0)])
def test_a_duration_is_parsed(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


def test_an_invalid_duration_is_rejected() -> None:
    with pytest.raises(ActionError, match="Invalid duration 'soon'"):
        parse_duration_ms("soon")
