"""What a query gives back: all of it at once, or piece by piece."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Row = tuple[Any, ...]
# So many rows are in memory at a time; DuckDB works in pieces of this size, too.
ROWS_PER_PIECE: Final = 2048


@dataclass(frozen=True, slots=True)
class Result:
    columns: list[str]
    rows: list[Row]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def arrow(self) -> Any:
        """A pyarrow.Table with the same columns."""
        import pyarrow

        arrays = [pyarrow.array([row[at] for row in self.rows]) for at in range(len(self.columns))]
        return pyarrow.Table.from_arrays(arrays, names=self.columns)


class Stream:
    """Rows as they come. They can be taken once, in one of the two ways."""

    def __init__(
        self, columns: list[str], fetch: Callable[[int], list[Row]], arrow: Callable[[int], Any] | None = None
    ) -> None:
        self.columns = columns
        self._fetch = fetch
        self._arrow = arrow

    def __iter__(self) -> Iterator[Row]:
        while rows := self._fetch(ROWS_PER_PIECE):
            yield from rows

    def result(self) -> Result:
        return Result(self.columns, list(self))

    def arrow(self) -> Any:
        """A pyarrow.RecordBatchReader with the same columns."""
        if self._arrow is not None:
            return self._arrow(ROWS_PER_PIECE)
        # Only the cluster's own tables come without types, and those are small.
        return self.result().arrow().to_reader()
