"""The cluster as SQL tables: `query("SELECT name FROM Topic")`. An ordinary client, and read-only."""

from penstock.sqlview.query import query, stream
from penstock.sqlview.result import Result, Stream

__all__ = ["Result", "Stream", "query", "stream"]
