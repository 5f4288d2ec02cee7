"""The two calls: `query(sql, bootstrap=...)`, and `stream` for more than fits into memory.

A query runs in a process of its own (isolated.py), which chooses the engine: the cluster's tables go through sqlite; a
query that reads records, `FROM topic('orders')`, goes through DuckDB, where the same tables are there too.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final

from penstock.sqlview import isolated
from penstock.sqlview.result import Result, Stream

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
DEFAULT_TIMEOUT_S: Final = 60.0
DEFAULT_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_PLAIN: Final[Mapping[str, str]] = MappingProxyType({})


def query(
    sql: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    settings: Mapping[str, str] = _PLAIN,
) -> Result:
    """Run one SELECT on the cluster as it is now. Raises QueryError, with what to do in it."""
    with stream(
        sql, bootstrap=bootstrap, timeout_s=timeout_s, memory_bytes=memory_bytes, settings=settings
    ) as rows:  # fmt: skip
        return rows.result()


def stream(
    sql: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    settings: Mapping[str, str] = _PLAIN,
) -> AbstractContextManager[Stream]:
    """The same, row by row, in memory that does not grow with the rows. The time counts up to the last of them.

    `memory_bytes` is what the query may take beside the engine itself, on Linux.
    """
    return isolated.run(sql, bootstrap=bootstrap, settings=settings, timeout_s=timeout_s, memory_bytes=memory_bytes)
