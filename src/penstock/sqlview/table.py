"""What a table is: a name, typed columns, a sentence, and how its rows are had from a cluster."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.actions.cluster_client import ClusterClient

Rows = Iterable[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    name: str
    columns: dict[str, str]
    """By name, with their SQL types: TEXT, BIGINT or BOOLEAN; sets of numbers are text with commas."""
    doc: str
    read: Callable[[ClusterClient], Rows]

    def declaration(self) -> str:
        columns = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        return f'CREATE TABLE "{self.name}" ({columns})'
