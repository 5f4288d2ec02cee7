"""What can go wrong with a query, in words for whoever typed it."""

from penstock.model.errors import PenstockError


class QueryError(PenstockError):
    """The query cannot be run; says why, and what to do."""
