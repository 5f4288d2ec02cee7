"""Queries over the cluster's tables in an in-memory SQLite database, which is discarded afterwards.

A first pass on the empty tables finds the tables that the query reads; only those are filled. Raises QueryError for
anything but a SELECT, syntax errors, unknown names, and too much memory.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.actions.cluster_client import ClusterClient
from penstock.sqlview.errors import QueryError
from penstock.sqlview.memory import memory_limit
from penstock.sqlview.result import Cursor, Row, Stream, unique_names
from penstock.sqlview.tables import BY_NAME, TABLES
from penstock_client.errors import nearest

_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_FORBIDDEN_FUNCTIONS: Final = frozenset({"load_extension"})


@contextmanager
def run(sql: str, open_cluster: Callable[[], ClusterClient], *, memory_bytes: int) -> Iterator[Stream]:
    with memory_limit("sqlite", memory_bytes):
        yield from _run(sql, open_cluster)


def _run(sql: str, open_cluster: Callable[[], ClusterClient]) -> Iterator[Stream]:
    connection = sqlite3.connect(":memory:")
    try:
        for table in TABLES:
            connection.execute(table.declaration())
        used = _tables_read(connection, sql)
        connection.set_authorizer(None)
        if used:
            with open_cluster() as cluster:
                for name in sorted(used):
                    table = BY_NAME[name]
                    marks = ",".join("?" * len(table.columns))
                    connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', table.read(cluster))
        connection.commit()
        connection.execute("PRAGMA query_only = ON")
        cursor = connection.execute(sql)
        columns = [column[0] for column in cursor.description]
        flags = {name for name in used for name, kind in BY_NAME[name].columns.items() if kind == "BOOLEAN"}

        def fetch(count: int) -> list[Row]:
            rows = cursor.fetchmany(count)
            return [tuple(_shown(*pair, flags) for pair in zip(columns, row, strict=True)) for row in rows]

        yield Stream(lambda: Cursor(unique_names(columns), fetch))
    except sqlite3.Error as error:
        raise QueryError(_explain(str(error))) from None
    finally:
        connection.close()


def _tables_read(connection: sqlite3.Connection, sql: str) -> set[str]:
    """Return the tables that the query reads; raise QueryError if it would do anything but read."""
    used: set[str] = set()
    writes: list[int] = []

    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and first is not None and first.lower() in BY_NAME:
            used.add(first.lower())
        if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _FORBIDDEN_FUNCTIONS):
            writes.append(action)
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)
    try:
        # Compile the statement itself: EXPLAIN would hide its kind.
        cursor = connection.execute(sql)
    except sqlite3.DatabaseError:
        if writes:
            raise QueryError("Only SELECT is allowed: the tables are read-only.") from None
        raise
    if cursor.description is None:
        raise QueryError("The query is empty: write for example SELECT name FROM Topic.")
    cursor.close()
    return used


def _explain(message: str) -> str:
    unknown = message.removeprefix("no such table: ")
    if unknown != message:
        meant = nearest(unknown, (table.name for table in BY_NAME.values()))
        return f"Unknown table {unknown}.{meant} 'penstock sql --tables' lists all tables."
    return f"The query cannot be run: {message}."


def _shown(column: str, value: object, flags: set[str]) -> object:
    return bool(value) if column in flags and value in (0, 1) else value
