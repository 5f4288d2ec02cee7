"""Fields that two brokers may fill differently: identities, clocks, addresses.

Numbers and ids that are chosen at random are replaced by the order in which they first show, so that
'the same id again' and 'another id' still compare. Times close to now become `now`.
"""

from __future__ import annotations

import re
import time
from typing import Any

IDENTITIES = {"topic_id": None, "producer_id": -1, "session_id": 0, "cluster_id": None}
"""Compared by the order of their first appearance, except for the value that means none."""

IGNORED = {
    "port": "each broker has its own",
    "throttle_time": "depends on load",
    "finalized_features_epoch": "an offset in the metadata log",
    "log_dir": "each broker has its own folder",
    "total_bytes": "the disk's",
    "usable_bytes": "the disk's",
    "documentation": "prose",
    "is_cordoned": "compared by the scenario that is about it",
}

NOW_MS = 2 * 60 * 60 * 1000
_MEMBER = re.compile(r"(?:differential|instance)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""A member id assigned by a coordinator: the client's or instance's id and a random one; also in error messages."""
_SHORT_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_LONG_NUMBER = re.compile(r"-?\d{13,}")


class Mask:
    """Replaces volatile values in the responses of one session."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Any], str] = {}

    def apply(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self.apply(one, key) for key, one in value.items() if key not in IGNORED}
        if isinstance(value, list):
            return [self.apply(one, name) for one in value]
        if name in IDENTITIES and value != IDENTITIES[name]:
            return self._seen.setdefault((name, value), f"<{name} {len(self._seen) + 1}>")
        if isinstance(value, int):
            return "<now>" if _is_close_to_now(value) else value
        if isinstance(value, str):
            if name == "member_id" and _SHORT_ID.fullmatch(value):
                return self._member(value)
            value = _MEMBER.sub(lambda found: self._member(found[0]), value)
            return _LONG_NUMBER.sub(lambda found: "<now>" if _is_close_to_now(int(found[0])) else found[0], value)
        return value

    def _member(self, member_id: str) -> str:
        return self._seen.setdefault(("member", member_id), f"<member {len(self._seen) + 1}>")


def _is_close_to_now(number: int) -> bool:
    now = time.time() * 1000
    # Time limits are computed as now plus or minus a setting, and the largest setting is 2**63 - 1.
    return min(abs(number - now), abs(number - now + (1 << 63))) < NOW_MS
