"""The logs whose active segment is open for writes: a limited number, because each takes a descriptor.

When there are more, the files of logs that were not written to for a while are closed, and opened again by the next
write (segment_writer.py). "For a while" is approximate, so that appends need not record anything: the logs are in the
order in which they were opened, and one that has grown since it was last considered goes to the end again. A file with
unsynced writes stays open, because a sync through another descriptor might not report an earlier error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.storage.log import Log

OPEN_WRITERS_MAX: Final = 4096
# How many logs are considered when one is opened: more than one, so that the limit is reached again after a burst.
_CONSIDERED_MAX: Final = 16


class OpenWriters:
    """The logs of a data folder that are open for writes."""

    __slots__ = ("_logs", "_most")

    def __init__(self, most: int = OPEN_WRITERS_MAX) -> None:
        self._most = most
        # Each with its end offset when it was last considered.
        self._logs: dict[Log, int] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def opened(self, log: Log) -> None:
        """Add a log that is about to be written to; close the files of some others if there are too many."""
        self._logs.pop(log, None)
        for _ in range(_CONSIDERED_MAX):
            if len(self._logs) < self._most:
                break
            self._consider(next(iter(self._logs)))
        self._logs[log] = log.end_offset

    def forget(self, log: Log) -> None:
        """Drop a log that is deleted."""
        self._logs.pop(log, None)

    def _consider(self, log: Log) -> None:
        was_written = self._logs.pop(log) != log.end_offset
        if was_written or not log.writer.release():
            self._logs[log] = log.end_offset
