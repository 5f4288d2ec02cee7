"""The declaration of a table: name, typed columns, description, and the function that reads its rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.actions.cluster_client import ClusterClient

Rows = Iterable[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    name: str
    columns: dict[str, str]
    """Names and SQL types: TEXT, BIGINT or BOOLEAN; sets of numbers are comma-separated text."""
    doc: str
    read: Callable[[ClusterClient], Rows]

    def declaration(self) -> str:
        columns = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        return f'CREATE TABLE "{self.name}" ({columns})'
