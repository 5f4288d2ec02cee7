"""The clock of retention: close to the wall clock, but protected from jumps forward.

A wall clock that jumps forward makes all records look old, and retention cannot be undone. This clock therefore runs
no faster than the monotonic one; it accepts a jump forward once that has lasted as long as its size, at most a day. It
follows a step back immediately, which only keeps records longer. The class is pure: the store passes the clock
readings in, and keeps the last result in a file.
"""

import logging
from contextlib import suppress
from typing import Final

from penstock.ports.clock import Clock
from penstock.ports.disk import Disk
from penstock.storage.checkpoint import write_unsynced

logger = logging.getLogger(__name__)

FILE_NAME: Final = "retention-clock"
# Clocks drift and are slewed; two readings are at most some minutes apart.
TOLERANCE_MS: Final = 10_000
DOUBT_MS_MAX: Final = 24 * 3600 * 1000


class RetentionClock:
    """Combines the wall clock and the monotonic clock."""

    __slots__ = ("_doubted_since_ms", "_monotonic_ms", "_now_ms", "is_new")

    def __init__(self, last_ms: int | None, *, monotonic_ms: int) -> None:
        """Continue from `last_ms`, the last result of an earlier process; without it, accept the first reading."""
        self._now_ms = last_ms
        self._monotonic_ms = monotonic_ms
        # The monotonic time since when the wall clock is ahead.
        self._doubted_since_ms: int | None = None
        self.is_new = True
        """Whether there was no reading yet."""

    @property
    def is_doubtful(self) -> bool:
        """Return whether the wall clock has jumped ahead and is not accepted yet."""
        return self._doubted_since_ms is not None

    def read(self, *, wall_ms: int, monotonic_ms: int) -> int:
        """Return the time from which the age of records is computed."""
        self.is_new = False
        if self._now_ms is None:
            self._now_ms = wall_ms
        steady = self._now_ms + monotonic_ms - self._monotonic_ms
        self._monotonic_ms = monotonic_ms
        ahead = wall_ms - steady
        if ahead <= TOLERANCE_MS:
            self._doubted_since_ms = None
            self._now_ms = wall_ms
            return wall_ms
        if self._doubted_since_ms is None:
            self._doubted_since_ms = monotonic_ms
        if monotonic_ms - self._doubted_since_ms >= min(ahead, DOUBT_MS_MAX):
            self._doubted_since_ms = None
            steady = wall_ms
        self._now_ms = steady
        return steady


def save(disk: Disk, folder: str, now_ms: int) -> None:
    """Save a result for the next start. Never synced: an older one, or none, does no harm."""
    with suppress(OSError):
        write_unsynced(disk, f"{folder}/{FILE_NAME}", b"0\n%d\n" % now_ms)


def load(disk: Disk, folder: str) -> int | None:
    """Return the saved result, None if there is none."""
    try:
        version, now_ms, rest = disk.read_file(f"{folder}/{FILE_NAME}").split(b"\n")
        return int(now_ms) if version == b"0" and rest == b"" else None
    except (FileNotFoundError, ValueError):
        return None


def read(clock: RetentionClock, readings: Clock) -> int:
    """Read the clock, and log when it begins to ignore a jump."""
    is_first, doubted = clock.is_new, clock.is_doubtful
    wall_ms = readings.wall_ms()
    now_ms = clock.read(wall_ms=wall_ms, monotonic_ms=int(readings.monotonic() * 1000))
    if clock.is_doubtful and not doubted:
        ahead_s = (wall_ms - now_ms) // 1000
        if is_first:
            # A node that was stopped cannot tell how long: every restart begins like this.
            logger.info("retention ignores the last %d s for now, in which the node was stopped", ahead_s)
        else:
            logger.warning("the clock jumped forward by %d s: retention ignores the jump for now", ahead_s)
    return now_ms
