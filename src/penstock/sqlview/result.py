"""The result of a query: complete, or as a stream."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

Row = tuple[Any, ...]
# The number of rows in memory at a time; DuckDB uses chunks of this size, too.
ROWS_PER_PIECE: Final = 2048


@dataclass(frozen=True, slots=True)
class Result:
    columns: list[str]
    rows: list[Row]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def arrow(self) -> Any:
        """Return a pyarrow.Table with the same columns."""
        import pyarrow

        arrays = [pyarrow.array([row[at] for row in self.rows]) for at in range(len(self.columns))]
        return pyarrow.Table.from_arrays(arrays, names=self.columns)


class Cursor(NamedTuple):
    """A running query."""

    columns: list[str]
    fetch: Callable[[int], list[Row]]


def unique_names(columns: Iterable[str]) -> list[str]:
    """Return the names of columns, with a number if a name repeats, as in `SELECT a.offset, b.offset`.

    Rows are read by name, so that of two columns with one name only the last would be seen.
    """
    listed = list(columns)
    found: list[str] = []
    for name in listed:
        unique, count = name, 0
        while unique in found or (count and unique in listed):
            count += 1
            unique = f"{name}_{count}"
        found.append(unique)
    return found


class Stream:
    """A stream of rows, which can be read once: as rows, or as Arrow before anything else is read."""

    def __init__(self, run: Callable[[], Cursor], arrow: Callable[[int], Any] | None = None) -> None:
        self._run = run
        self._arrow = arrow
        self._cursor: Cursor | None = None

    @property
    def columns(self) -> list[str]:
        return self._rows().columns

    @property
    def has_arrow(self) -> bool:
        """Return whether Arrow batches can be streamed."""
        return self._arrow is not None

    def pieces(self) -> Iterator[list[Row]]:
        while rows := self._rows().fetch(ROWS_PER_PIECE):
            yield rows

    def __iter__(self) -> Iterator[Row]:
        for rows in self.pieces():
            yield from rows

    def _rows(self) -> Cursor:
        if self._cursor is None:
            self._cursor = self._run()
        return self._cursor

    def result(self) -> Result:
        return Result(self.columns, list(self))

    def arrow(self) -> Any:
        """Return a pyarrow.RecordBatchReader with the same columns."""
        if self._arrow is not None:
            return self._arrow(ROWS_PER_PIECE)
        # Only the cluster's tables lack Arrow types, and those are small.
        return self.result().arrow().to_reader()
