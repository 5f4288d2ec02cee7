"""Errors of a query, with messages for the person who typed it."""

from penstock.model.errors import PenstockError


class QueryError(PenstockError):
    """The query failed; the message says why, and what to do."""


class TooManyQueries(QueryError):
    """All processes that may run queries are in use."""


def too_slow(timeout_s: float) -> QueryError:
    return QueryError(f"The query ran for more than {timeout_s:g} s: narrow it, or increase --timeout.")


def too_much_memory(memory_bytes: int) -> QueryError:
    size = memory_bytes / (1024 * 1024)
    return QueryError(f"The query needs more than {size:,.0f} MiB of memory: narrow it, or increase --memory.")
