"""Suggestions from events of the audit."""

from typing import Any

import pytest

from penstock.actions.acl_suggest import needed_right, suggest
from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.security.authorizer import AUDIT_TOPIC


def event(operation: str = "READ", resource: str = "orders", **changes: Any) -> dict[str, Any]:
    return {
        "verdict": "denied",
        "principal": "User:bob",
        "operation": operation,
        "resource_type": "TOPIC",
        "resource": resource,
        "rule": "no ACL matches",
        "count": 2,
        **changes,
    }


def allow(operation: int, name: str = "orders", kind: int = ResourceType.TOPIC, permission: int = 3) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, "User:bob", "*", operation, permission)


def suggested(*events: Any, acls: tuple[Acl, ...] = ()) -> list[tuple[Acl, int]]:
    return [(each.acl, each.requests) for each in suggest(events, acls)]


def test_each_right_is_suggested_once() -> None:
    assert suggested(event(), event(), event(principal="User:carol", count=1)) == [
        (allow(Operation.READ), 4),
        (allow(Operation.READ)._replace(principal="User:carol"), 1),
    ]


def test_describe_is_left_out_if_another_right_includes_it() -> None:
    assert suggested(event("DESCRIBE"), event("READ")) == [(allow(Operation.READ), 2)]
    assert suggested(event("DESCRIBE"), event("READ", "other"))[0] == (allow(Operation.DESCRIBE), 2)


def test_what_acls_allow_by_now_is_left_out() -> None:
    assert suggested(event("DESCRIBE"), acls=(allow(Operation.WRITE),)) == []
    assert suggested(event(), acls=(allow(Operation.WRITE),)) == [(allow(Operation.READ), 2)]


def test_a_denying_acl_is_named() -> None:
    deny = allow(Operation.READ, permission=Permission.DENY)
    (suggestion,) = suggest([event()], [deny])
    assert suggestion.denied_by == deny


def test_a_producer_needs_write_on_the_topics_that_it_names() -> None:
    assert suggested(event("WRITE", "*"), event("WRITE")) == [(allow(Operation.WRITE), 2)]
    cluster = allow(Operation.IDEMPOTENT_WRITE, "kafka-cluster", ResourceType.CLUSTER)
    assert suggested(event("WRITE", "*")) == [(cluster, 2)]


@pytest.mark.parametrize(
    "other",
    [
        {},
        [],
        "text",
        None,
        event(verdict="allowed"),
        event("FLY"),
        event(resource_type="MOON"),
        event(count="many"),
        event(rule=AUDIT_TOPIC),
    ],
)
def test_other_events_need_nothing(other: Any) -> None:
    assert needed_right(other) is None
    assert suggest([other], []) == []
