"""What a query gives back."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    columns: list[str]
    rows: list[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def arrow(self) -> Any:
        """A pyarrow.Table with the same columns."""
        import pyarrow

        arrays = [pyarrow.array([row[at] for row in self.rows]) for at in range(len(self.columns))]
        return pyarrow.Table.from_arrays(arrays, names=self.columns)
