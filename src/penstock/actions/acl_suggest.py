"""The ACLs that would allow what the audit has recorded: no more than that, and without those that exist.

`suggest` takes events and ACLs and returns suggestions; `suggest_acls` reads both from a cluster.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from penstock.actions.acls import list_acls
from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.errors import ActionError
from penstock.actions.positions import AtTime, Earliest
from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer
from penstock.model.acl import (
    OPERATION_NAMES,
    RESOURCE_NAMES,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.model.topic import AUDIT
from penstock.security.acl_filter import AclFilter
from penstock.security.authorizer import AUDIT_TOPIC, IMPLIED_BY, AclIndex

_OPERATIONS: Final = {name: number for number, name in OPERATION_NAMES.items()}
_TYPES: Final = {name: number for number, name in RESOURCE_NAMES.items()}
_DENIED: Final = "denied"


class Needed(NamedTuple):
    """A right that a principal used, or tried to use."""

    principal: str
    resource_type: int
    resource: str
    operation: int


class Suggestion(NamedTuple):
    acl: Acl
    requests: int
    """How many requests would need it."""
    denied_by: Acl | None
    """A DENY that must be removed as well."""


def needed_right(event: Any) -> tuple[Needed, int] | None:
    """Return the right that an event of the audit is about, and how many requests there were; None if it has none."""
    try:
        needed = Needed(
            str(event["principal"]),
            _TYPES[event["resource_type"]],
            str(event["resource"]),
            _OPERATIONS[event["operation"]],
        )
        if event["verdict"] != _DENIED or event["rule"] == AUDIT_TOPIC:
            return None
        return needed, int(event["count"])
    except (KeyError, TypeError, ValueError):
        return None


def suggest(events: Iterable[Any], acls: Sequence[Acl]) -> list[Suggestion]:
    """Return the ACLs that would allow what was denied."""
    counts: dict[Needed, int] = {}
    for event in events:
        found = needed_right(event)
        if found is not None:
            needed, count = found
            counts[needed] = counts.get(needed, 0) + count
    index = AclIndex(acls)
    suggestions = []
    for needed in sorted(counts):
        decision = index.decide(needed.principal, WILDCARD, needed.operation, needed.resource_type, needed.resource)
        if decision.is_allowed or _is_implied(needed, counts):
            continue
        denied_by = decision.rule if isinstance(decision.rule, Acl) else None
        suggestions.append(Suggestion(_acl(needed), counts[needed], denied_by))
    return suggestions


def _is_implied(needed: Needed, counts: dict[Needed, int]) -> bool:
    """Return whether another right that is needed anyway includes this one."""
    if needed.operation == Operation.WRITE and needed.resource == WILDCARD:
        # A producer without a transaction needs Write on any topic.
        return any(
            (other.principal, other.operation, other.resource_type)
            == (needed.principal, Operation.WRITE, ResourceType.TOPIC)
            and other.resource != WILDCARD
            for other in counts
        )
    return any(needed._replace(operation=other) in counts for other in IMPLIED_BY.get(needed.operation, ()))


def _acl(needed: Needed) -> Acl:
    if (needed.resource_type, needed.operation, needed.resource) == (ResourceType.TOPIC, Operation.WRITE, WILDCARD):
        # Less than Write on every topic, and sufficient for a producer that has not named one yet.
        return Acl(
            ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, needed.principal, WILDCARD,
            Operation.IDEMPOTENT_WRITE, Permission.ALLOW,
        )  # fmt: skip
    return Acl(
        needed.resource_type,
        needed.resource,
        PatternType.LITERAL,
        needed.principal,
        WILDCARD,
        needed.operation,
        Permission.ALLOW,
    )


def suggest_acls(
    connection: Connection, *, principal: str | None = None, since_ms: int | None = None
) -> list[Suggestion]:
    """Read the audit of a cluster and its ACLs, and return suggestions."""
    events = [event for event in _read(connection, since_ms) if principal in (None, event.get("principal"))]
    return suggest(events, list_acls(connection, AclFilter()))


def _read(connection: Connection, since_ms: int | None) -> list[dict[str, Any]]:
    consumer = open_consumer(connection, Isolation.UNCOMMITTED)
    try:
        if AUDIT not in consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics:
            raise ActionError(f"There is no audit: the topic '{AUDIT}' does not exist.", code="NO_AUDIT")
        position = Earliest() if since_ms is None else AtTime(since_ms)
        reader = TopicReader(consumer, AUDIT, None, position, follow=False)
        return [event for batch in reader.batches(None) for record in batch if (event := _event(record.value))]
    finally:
        consumer.close()


def _event(value: bytes | None) -> dict[str, Any] | None:
    try:
        event = json.loads(value or b"")
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
