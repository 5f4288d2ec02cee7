"""Events of the audit: equal ones are counted, and there is a limit."""

import json

import pytest

from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.security.audit import NAME_SIZE_MAX, AuditBuffer, AuditEvent, AuditKey, shortened

DENY = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:bob", "*", Operation.WRITE, Permission.DENY)
KEY = AuditKey("User:bob", "10.0.0.1", "Produce", Operation.WRITE, ResourceType.TOPIC, "orders", False, True, DENY)


def test_equal_events_are_counted() -> None:
    buffer = AuditBuffer()
    for now_ms in (5, 6, 7):
        assert buffer.note(KEY, now_ms)
    assert buffer.note(KEY._replace(host="10.0.0.2"), 8)
    assert buffer.take(10) == [AuditEvent(KEY, 5, 3), AuditEvent(KEY._replace(host="10.0.0.2"), 8, 1)]
    assert not buffer.take(10)


def test_a_full_buffer_still_counts_what_it_knows() -> None:
    buffer = AuditBuffer(events_max=2)
    assert [buffer.note(KEY._replace(resource=name), 1) for name in "abcab"] == [True, True, False, True, True]
    assert len(buffer) == 2
    assert [(event.key.resource, event.times) for event in buffer.take(1)] == [("a", 2)]
    assert buffer.note(KEY._replace(resource="c"), 1)


def test_an_event_is_json() -> None:
    assert json.loads(AuditEvent(KEY, 17, 3).encode(2)) == {
        "time": 17,
        "node": 2,
        "verdict": "denied",
        "enforced": True,
        "principal": "User:bob",
        "host": "10.0.0.1",
        "api": "Produce",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": "orders",
        "rule": str(DENY),
        "count": 3,
    }


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({}, "denied 'User:bob' from 10.0.0.1 write 'topic:orders' for Produce: 'deny User:bob write topic:orders'"),
        ({"is_enforced": False}, "would deny 'User:bob'"),
        ({"is_allowed": True}, "allowed 'User:bob'"),
        ({"resource": "a\nb"}, "denied 'User:bob' from 10.0.0.1 write 'topic:a\\nb'"),
    ],
)
def test_an_event_is_one_line(changes: dict[str, object], begins: str) -> None:
    line = str(KEY._replace(**changes))  # type: ignore[arg-type]
    assert line.startswith(begins)
    assert "\n" not in line


def test_long_names_are_cut() -> None:
    assert shortened("a" * NAME_SIZE_MAX) == "a" * NAME_SIZE_MAX
    assert shortened("a" * 32_000) == "a" * NAME_SIZE_MAX + "..."
