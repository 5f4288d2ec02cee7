"""How far a partition is done when its records finish in any order. No I/O, no locks."""

from __future__ import annotations

from collections import deque


class OffsetTracker:
    """Knows the offset to commit for one partition: the lowest that is not finished.

    One object lives from the assignment of a partition to its revocation, so a late finish of an
    earlier life changes nothing in a later one.
    """

    __slots__ = ("_done", "_next", "_open", "_told", "begun")

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None
        self._told: int | None = None
        self.begun = -1
        """The highest offset whose handler was ever called."""

    def start(self, offset: int) -> None:
        """Note a record that was taken over; offsets of a partition only rise."""
        assert not self.is_past(offset), "records of a partition arrive in their order"
        if self._next is None:
            # Where reading began is where the last commit stands: no news yet.
            self._told = offset
        self._open.append(offset)
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        """Note that a record needs no more work."""
        if not self._open or offset < self._open[0]:
            return
        self._done.add(offset)
        while self._open and self._open[0] in self._done:
            self._done.remove(self._open.popleft())

    def is_past(self, offset: int) -> bool:
        """Say whether this offset was taken over before: then the partition's offsets were reset."""
        return self._next is not None and offset < self._next

    @property
    def position(self) -> int | None:
        """The offset to commit, or None while nothing was taken over."""
        return self._open[0] if self._open else self._next

    def news(self) -> int | None:
        """Return the offset to commit if it is not the one last told of."""
        return self.position if self.position != self._told else None

    def told(self, offset: int) -> None:
        """Note that this offset was sent to be committed."""
        self._told = offset

    def not_committed(self) -> None:
        """Note that the last commit failed, so that the next one says it again."""
        self._told = None
