"""Which engine a query needs. No I/O."""

import re
from typing import Final

_READS_RECORDS: Final = re.compile(r"\btopic\s*\(", re.IGNORECASE)


def reads_records(sql: str) -> bool:
    """Return whether a query may read records. Any other query runs on the cluster's tables alone."""
    return _READS_RECORDS.search(sql) is not None
