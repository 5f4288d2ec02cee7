"""An SQL condition on records, evaluated batch by batch in an in-memory DuckDB. Runs in the process of child.py.

The condition sees the columns of topic() in `penstock sql`. Raises QueryError for anything but one expression, for a
condition that fails on a record, and for too much memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from penstock.sqlview import record_engine
from penstock.sqlview.errors import QueryError
from penstock.sqlview.pushdown import Node

try:
    import pyarrow as pa

    from penstock.arrow.reading import COLUMNS
except ImportError:
    raise QueryError("An SQL condition needs DuckDB and Arrow: run pip install 'penstock[sql]'.") from None

Record = tuple[Any, ...]
_INDEX: Final = "_index"
_SCHEMA: Final = pa.schema([*COLUMNS.items(), (_INDEX, pa.int64())])
_TIMESTAMP_MS_MAX: Final = 2**63 // 1000 - 1
_EXAMPLE: Final = "\"key = 'anna'\""


@contextmanager
def open_filter(condition: str, memory_bytes: int) -> Iterator[Callable[[Sequence[Record]], list[int]]]:
    """Yield a function that returns the indexes of the records that fulfil the condition."""
    if not condition.strip():
        raise QueryError(f"The condition is empty. Pass an SQL expression, for example {_EXAMPLE}.")
    # On lines of its own, because a condition may end with a comment.
    sql = f"SELECT {_INDEX} FROM records WHERE (\n{condition}\n) ORDER BY {_INDEX}"
    with record_engine.limited_connection(memory_bytes) as connection:
        _check(record_engine.parse_select(connection, sql), condition)

        def matching(records: Sequence[Record]) -> list[int]:
            connection.register("records_records", _table(records))
            return [index for (index,) in connection.execute(sql).fetchall()]

        connection.register("records_records", _table([]))
        connection.execute(record_engine.VIEW.format(name="records", more=f"{_INDEX}, "))
        connection.execute("SET lock_configuration = true")
        # Reports a misspelled column before the first record arrives.
        matching([])
        yield matching


def _check(tree: Node, condition: str) -> None:
    """Raise unless the condition is one expression. `true) UNION SELECT (1` is not."""
    node = tree["statements"][0]["node"]
    if node["type"] != "SELECT_NODE" or not node["where_clause"] or node["group_expressions"]:
        raise QueryError(f"Invalid condition '{condition}': expected one SQL expression, for example {_EXAMPLE}.")


def _table(records: Sequence[Record]) -> Any:
    rows = [(*record, index) for index, record in enumerate(records)]
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    arrays = [_array(column, field) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _array(values: Sequence[Any], field: Any) -> Any:
    if field.name == "timestamp":
        values = [None if value is None or value > _TIMESTAMP_MS_MAX else value * 1000 for value in values]
    elif field.name == "headers":
        values = [[{"key": name, "value": value} for name, value in headers] for headers in values]
    return pa.array(values, type=field.type)
