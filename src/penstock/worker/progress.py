"""Progress of a partition whose records finish in any order. No I/O, no locks."""

from __future__ import annotations

from collections import deque


class OffsetTracker:
    """The offset to commit for one partition: the lowest that is not finished.

    An object exists from the assignment of a partition to its revocation, so a record of an earlier assignment that
    finishes late does not affect a later one.
    """

    __slots__ = ("_done", "_next", "_open", "_told", "begun")

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None
        self._told: int | None = None
        self.begun = -1
        """The highest offset whose handler was called."""

    def start(self, offset: int) -> None:
        """Add a submitted record; offsets of a partition only increase."""
        assert not self.is_past(offset), "records of a partition arrive in order"
        if self._next is None:
            # The first offset is the committed one: nothing to commit yet.
            self._told = offset
        self._open.append(offset)
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        """Mark a record as finished."""
        if not self._open or offset < self._open[0]:
            return
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            self._done.remove(self._open.popleft())

    def is_past(self, offset: int) -> bool:
        """Return whether this offset was submitted before: then the partition's offsets were reset."""
        return self._next is not None and offset < self._next

    @property
    def position(self) -> int | None:
        """Return the offset to commit, or None if no record was submitted."""
        return self._open[0] if self._open else self._next

    def position_to_commit(self) -> int | None:
        """Return the offset to commit if it differs from the last one."""
        return self.position if self.position != self._told else None

    def mark_sent(self, offset: int) -> None:
        """Record that this offset was sent in a commit."""
        self._told = offset

    def not_committed(self) -> None:
        """Record that the last commit failed, so that the next one includes this offset again."""
        self._told = None
