"""The two entry points: `query(sql, bootstrap=...)`, and `stream` for results that do not fit in memory.

A query runs in a separate process (isolated.py), which chooses the engine: SQLite for the cluster's tables, DuckDB for
a query that reads records, `FROM topic('orders')`. DuckDB has the cluster's tables as well.
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
    """Run one SELECT on the current state of the cluster. Raises QueryError."""
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
    """Run one SELECT and yield its rows with bounded memory. The timeout covers reading all rows.

    `memory_bytes` limits the memory of the query, without the engine itself, on Linux.
    """
    return isolated.run(sql, bootstrap=bootstrap, settings=settings, timeout_s=timeout_s, memory_bytes=memory_bytes)
