"""The log of changes: one line of JSON per executed change."""

import json
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from penstock_console.plans import Plan

logger = logging.getLogger("penstock_console.audit")

ROWS_MAX: Final = 20
TEXT_MAX: Final = 1000


def record(
    *,
    user: str | None,
    address: str,
    cluster: str,
    action: str,
    arguments: Mapping[str, Any],
    hidden: tuple[str, ...],
    plan: Plan,
    outcome: str,
) -> None:
    """Log a change: who, what, the state before and after, and how it ended. Secrets are left out."""
    line = {
        "time": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds"),
        "audit": action,
        "user": user,
        "address": address,
        "cluster": cluster,
        "arguments": {name: "(hidden)" if name in hidden else _short(value) for name, value in arguments.items()},
        "rows": [{name: _short(value) for name, value in row.items()} for row in plan.rows[:ROWS_MAX]],
        "row_count": len(plan.rows),
        "outcome": outcome,
    }
    # Escaped, so that no name or value can begin another line or control a terminal.
    logger.info("%s", json.dumps(line, ensure_ascii=True, default=str))


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return value[:TEXT_MAX] + "..."
    if isinstance(value, dict | list) and len(str(value)) > TEXT_MAX:
        return str(value)[:TEXT_MAX] + "..."
    return value
