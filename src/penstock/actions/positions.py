"""Where to begin reading: the words, numbers and times that --from understands. No I/O."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.cli.errors import CommandError

_AGO = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Earliest(NamedTuple):
    """The first record that is still there."""


class Latest(NamedTuple):
    """What is written from now on."""


class AtOffset(NamedTuple):
    """An offset, the same in every partition."""

    offset: int


class Last(NamedTuple):
    """The last so many offsets of every partition."""

    how_many: int


class AtTime(NamedTuple):
    """The first record that is not older."""

    timestamp_ms: int


Position = Earliest | Latest | AtOffset | Last | AtTime


def parse_position(text: str, *, now_ms: int, option: str = "--from") -> Position:
    """Read earliest, latest, 42, -10, 5m, @1700000000000 or 2026-01-31T12:00:00."""
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
    if ago := _AGO.fullmatch(word):
        return AtTime(now_ms - int(ago[1]) * _UNITS_MS[ago[2]])
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise CommandError(
            f"{option} does not understand '{text}': write earliest, latest, an offset (42), the last ten (-10), "
            "a time ago (5m), or a moment (2026-01-31T12:00:00Z)."
        ) from None
    # A moment without a zone is the reader's own wall clock.
    return AtTime(int((moment if moment.tzinfo else moment.astimezone()).astimezone(UTC).timestamp() * 1000))


def parse_duration_ms(text: str, *, option: str) -> int:
    """Read 90s, 5m, 1h or 2d."""
    found = _AGO.fullmatch(text.strip().lower())
    if found is None:
        raise CommandError(f"{option} does not understand '{text}': write a length of time, for example 90s, 5m or 1h.")
    return int(found[1]) * _UNITS_MS[found[2]]
