"""Positions of batches in a segment that recent reads have found, so that the next read needs no search.

A consumer reads on where its last read has ended. Members of a share group read a batch once for each of its records,
and then the batch behind it.
"""

from typing import Final

from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

STARTS_MAX: Final = 256


class SearchHints:
    __slots__ = ("_end", "_first", "_last", "_position", "_starts")

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        """Positions by base offset."""
        self._first, self._last = 0, -1
        """The offsets of the batch that was found last."""
        self._position = self._end = 0

    def with_start(self, base_offset: int, position: int) -> "SearchHints":
        hints = self._own()
        if len(hints._starts) >= STARTS_MAX:
            hints._starts.clear()
        hints._starts[base_offset] = position
        return hints

    def with_found(self, position: int, header: HeaderTuple) -> "SearchHints":
        hints = self._own()
        hints._first, hints._last = header[0], header[0] + header[6]
        hints._position, hints._end = position, position + header[1] + LOG_OVERHEAD
        return hints

    def _own(self) -> "SearchHints":
        """Return hints that may be changed."""
        return SearchHints() if self is NO_HINTS else self

    def position_of(self, offset: int) -> int | None:
        """Return the position of the batch that contains the offset, if it is known."""
        return self._position if self._first <= offset <= self._last else self._starts.get(offset)

    def start_for(self, offset: int, size: int) -> int | None:
        """Return the position of the batch behind the last one, if the offset follows and the segment has one."""
        return self._end if offset == self._last + 1 and 0 < self._end < size else None


NO_HINTS: Final = SearchHints()
"""Shared by the segments without hints, never changed."""
