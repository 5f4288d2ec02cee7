"""The cluster as SQL tables: `query("SELECT name FROM Topic")`. A client like any other, and read-only."""

from penstock.sqlview.query import query
from penstock.sqlview.result import Result

__all__ = ["Result", "query"]
