"""Events of the audit: what was denied or allowed, to whom, and by which rule (docs/internals/authorization.md).

`AuditBuffer` counts equal events and is bounded, so that noting an event never waits. Values in, values out:
server/audit.py writes the events. Refuses nothing.
"""

import json
from typing import Final, NamedTuple

from penstock.model.acl import OPERATION_NAMES, RESOURCE_NAMES, Acl, operation_text, resource_text

EVENTS_MAX: Final = 10_000
NAME_SIZE_MAX: Final = 512


class AuditKey(NamedTuple):
    """What equal events have in common."""

    principal: str
    host: str
    api: str
    operation: int
    resource_type: int
    resource: str
    is_allowed: bool
    is_enforced: bool
    rule: Acl | str

    def __str__(self) -> str:
        verdict = "allowed" if self.is_allowed else "denied" if self.is_enforced else "would deny"
        resource = resource_text(self.resource_type, self.resource)
        where = f" from {self.host}" if self.host else ""
        # Names can contain anything, also line breaks.
        return (
            f"{verdict} {self.principal!r}{where} {operation_text(self.operation)} {resource!r} for {self.api}: "
            f"{str(self.rule)!r}"
        )


class AuditEvent(NamedTuple):
    key: AuditKey
    first_ms: int
    times: int

    def encode(self, node_id: int) -> bytes:
        """Return the event as JSON."""
        key = self.key
        return json.dumps(
            {
                "time": self.first_ms,
                "node": node_id,
                "verdict": "allowed" if key.is_allowed else "denied",
                "enforced": key.is_enforced,
                "principal": key.principal,
                "host": key.host,
                "api": key.api,
                "operation": OPERATION_NAMES.get(key.operation, str(key.operation)),
                "resource_type": RESOURCE_NAMES.get(key.resource_type, str(key.resource_type)),
                "resource": key.resource,
                "rule": str(key.rule),
                "count": self.times,
            },
            separators=(",", ":"),
        ).encode()


class AuditBuffer:
    """Events that are not written yet; equal ones are counted."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events_max = events_max
        self._events: dict[AuditKey, list[int]] = {}

    def __len__(self) -> int:
        return len(self._events)

    def note(self, key: AuditKey, now_ms: int) -> bool:
        """Add an event; return whether there was room for it."""
        known = self._events.get(key)
        if known is not None:
            known[1] += 1
            return True
        if len(self._events) >= self._events_max:
            return False
        self._events[key] = [now_ms, 1]
        return True

    def take(self, count_max: int) -> list[AuditEvent]:
        """Remove and return the oldest events."""
        taken = []
        for key in list(self._events)[:count_max]:
            first_ms, times = self._events.pop(key)
            taken.append(AuditEvent(key, first_ms, times))
        return taken


def shortened(name: str) -> str:
    return name if len(name) <= NAME_SIZE_MAX else name[:NAME_SIZE_MAX] + "..."
