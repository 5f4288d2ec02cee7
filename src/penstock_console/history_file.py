"""A file that keeps the samples of the history across restarts (SQLite)."""

import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from penstock.actions.errors import ActionError
from penstock_console.history import COARSE, FINE, Sample

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sample (
    cluster TEXT, at_ms INTEGER, series TEXT, value REAL, PRIMARY KEY (cluster, at_ms, series)
) WITHOUT ROWID
"""
PRUNE_EVERY: Final = 60


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=5.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


class HistoryFile:
    """The samples of one cluster. Samples older than an hour are kept once a minute, for a day."""

    def __init__(self, path: Path, cluster: str) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._added = 0
        try:
            self._connection = _open(path)
        except sqlite3.Error as error:
            raise ActionError(
                f"Cannot use the history file {path}: {error}. Pass another file with --history."
            ) from None

    def add(self, at_ms: int, values: Mapping[str, float]) -> None:
        rows = [(self._cluster, at_ms, series, value) for series, value in values.items()]
        with self._lock:
            self._connection.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?)", rows)
            self._added += 1
            if self._added % PRUNE_EVERY == 0:
                self._prune(at_ms)
            self._connection.commit()

    def _prune(self, now_ms: int) -> None:
        hour, day = now_ms - FINE.step_ms * FINE.length, now_ms - COARSE.step_ms * COARSE.length
        self._connection.execute("DELETE FROM sample WHERE cluster = ? AND at_ms < ?", (self._cluster, day))
        # One sample per minute remains: the first one.
        self._connection.execute(
            "DELETE FROM sample WHERE cluster = ? AND at_ms < ? AND at_ms % ? >= ?",
            (self._cluster, hour, COARSE.step_ms, FINE.step_ms),
        )

    def load(self, since_ms: int) -> Iterable[Sample]:
        with self._lock:
            found = self._connection.execute(
                "SELECT at_ms, series, value FROM sample WHERE cluster = ? AND at_ms >= ? ORDER BY at_ms",
                (self._cluster, since_ms),
            ).fetchall()
        return [Sample(*row) for row in found]

    def close(self) -> None:
        with self._lock:
            self._connection.close()
