"""A regular expression on the keys and values of records. No I/O.

The syntax is RE2's, which matches in linear time. Keys and values are matched as bytes of UTF-8.
"""

from collections.abc import Callable

import re2  # type: ignore[import-untyped]

from penstock.actions.errors import ActionError
from penstock.actions.record_format import LineRecord


def grep(pattern: str) -> Callable[[LineRecord], bool]:
    """Return a function that tells whether the expression occurs in the key or the value of a record."""
    options = re2.Options()
    # Otherwise the library logs an invalid expression to stderr.
    options.log_errors = False
    try:
        search = re2.compile(pattern, options).search
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise ActionError(f"Invalid regular expression '{pattern}': {reason}.") from None

    def matches(record: LineRecord) -> bool:
        return any(field is not None and search(field) is not None for field in (record.value, record.key))

    return matches
