"""The time by which records grow old: close to the wall clock, and never ahead of it by a jump.

A wall clock that leaps forward makes everything look old, and what retention deletes is gone. So
this clock runs no faster than the monotonic one; a jump forward is believed once it has lasted
as long as it is wide, at most a day. A step back is followed at once: that only keeps more.
The class is pure: the store tells it what the clocks say, and keeps the last reading in a file.
"""

from contextlib import suppress
from typing import Final

from penstock.ports.disk import Disk

FILE_NAME: Final = "retention-clock"
# Clocks drift and are slewed; two looks are at most some minutes apart.
TOLERANCE_MS: Final = 10_000
DOUBT_MS_MAX: Final = 24 * 3600 * 1000


class RetentionClock:
    """Reads the two clocks into one."""

    __slots__ = ("_doubted_since_ms", "_monotonic_ms", "_now_ms", "is_new")

    def __init__(self, last_ms: int | None, *, monotonic_ms: int) -> None:
        """`last_ms` is what an earlier process read last; without it the first reading is believed."""
        self._now_ms = last_ms
        self._monotonic_ms = monotonic_ms
        # Since when, by the monotonic clock, the wall clock has been ahead.
        self._doubted_since_ms: int | None = None
        self.is_new = True
        """Whether there was no reading yet."""

    @property
    def is_doubtful(self) -> bool:
        """Whether the wall clock is ahead by a jump that is not believed yet."""
        return self._doubted_since_ms is not None

    def read(self, *, wall_ms: int, monotonic_ms: int) -> int:
        """Return the time that ages are counted to."""
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
    """Keep a reading for the next start. Never synced: an older one, or none, does no harm."""
    content = b"0\n%d\n" % now_ms
    with suppress(OSError):
        file = disk.open(f"{folder}/{FILE_NAME}", create=True)
        try:
            file.write((content,), 0)
            file.truncate(len(content))
        finally:
            file.close()


def load(disk: Disk, folder: str) -> int | None:
    """Return the last reading; None if there is none."""
    try:
        version, now_ms, rest = disk.read_file(f"{folder}/{FILE_NAME}").split(b"\n")
        return int(now_ms) if version == b"0" and rest == b"" else None
    except (FileNotFoundError, ValueError):
        return None
