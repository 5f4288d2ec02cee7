"""Positions in a log as users write them: words, offsets and times. No I/O."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.actions.errors import ActionError

_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Earliest(NamedTuple):
    """The start of the log."""


class Latest(NamedTuple):
    """The end of the log."""


class AtOffset(NamedTuple):
    """An offset, the same in every partition."""

    offset: int


class Last(NamedTuple):
    """The last `offset_count` offsets of every partition."""

    offset_count: int


class AtTime(NamedTuple):
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


Position = Earliest | Latest | AtOffset | Last | AtTime


def parse_position(text: str, *, now_ms: int) -> Position:
    """Parse earliest, latest, 42, -10, 5m, @1700000000000 or 2026-01-31T12:00:00."""
    word = text.strip().lower()
    if word in ("earliest", "beginning", "start"):
        return Earliest()
    if word in ("latest", "end"):
        return Latest()
    if re.fullmatch(r"\d+", word):
        return AtOffset(int(word))
    if re.fullmatch(r"-\d+", word):
        return Last(int(word[1:]))
    if re.fullmatch(r"@\d+", word):
        return AtTime(int(word[1:]))
    if match := _DURATION.fullmatch(word):
        return AtTime(now_ms - int(match[1]) * _UNITS_MS[match[2]])
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ActionError(
            f"Invalid position '{text}': expected earliest, latest, an offset (42), the last N records (-10), "
            "a duration before now (5m), or a time (2026-01-31T12:00:00Z)."
        ) from None
    # A time without a zone is local time.
    return AtTime(int((moment if moment.tzinfo else moment.astimezone()).astimezone(UTC).timestamp() * 1000))


def parse_time(text: str, *, now_ms: int) -> AtTime:
    """Parse a duration before now (5m) or a time (2026-01-31T12:00:00Z)."""
    try:
        position: Position | None = parse_position(text, now_ms=now_ms)
    except ActionError:
        position = None
    if not isinstance(position, AtTime):
        raise ActionError(
            f"Invalid time '{text}': expected a time (2026-01-31T12:00:00Z) or a duration before now (5m)."
        )
    return position


def parse_duration_ms(text: str) -> int:
    """Parse 90s, 5m, 1h or 2d."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ActionError(f"Invalid duration '{text}': expected a number with a unit, for example 90s, 5m or 1h.")
    return int(found[1]) * _UNITS_MS[found[2]]
