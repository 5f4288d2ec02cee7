"""The two calls: `query(sql, bootstrap=...)`, and `stream` for more than fits into memory. Both choose the engine.

The cluster's tables go through sqlite; a query that reads records, `FROM topic('orders')`, goes through
DuckDB, where the same tables are there too. Goes to metadata_engine.py and record_engine.py.
"""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from penstock.admin.cluster import PLAIN, Cluster
from penstock.sqlview import metadata_engine
from penstock.sqlview.result import Result, Stream

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
DEFAULT_TIMEOUT_S: Final = 60.0
_READS_RECORDS: Final = re.compile(r"\btopic\s*\(", re.IGNORECASE)


def query(
    sql: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    settings: Mapping[str, str] = PLAIN,
) -> Result:
    """Run one SELECT on the cluster as it is now. Raises QueryError, with what to do in it."""
    with stream(sql, bootstrap=bootstrap, timeout_s=timeout_s, settings=settings) as rows:
        return rows.result()


def stream(
    sql: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    settings: Mapping[str, str] = PLAIN,
) -> AbstractContextManager[Stream]:
    """The same, row by row, in memory that does not grow with the rows. The time counts up to the last of them."""
    if _READS_RECORDS.search(sql):
        from penstock.sqlview import record_engine

        return record_engine.run(sql, bootstrap, settings, timeout_s=timeout_s)
    return metadata_engine.run(sql, partial(Cluster, bootstrap, settings), timeout_s=timeout_s)
