"""The audit of a node, with a manual clock and a topic that fails on demand."""

import json
import logging
from typing import Any

import pytest

from penstock.client.interfaces import PeerUnavailable
from penstock.metrics.metrics import Metrics
from penstock.model.acl import Operation, ResourceType
from penstock.model.ids import NodeId
from penstock.model.topic import AUDIT
from penstock.security.authorizer import NO_ACL, SUPER_USER, Decision
from penstock.security.principal import user
from penstock.security.rights import Authorizer, Rights
from penstock.server.audit import BATCH_COUNT_MAX, LINES_MAX, Audit
from penstock.wire.api import ApiKey
from penstock.wire.records import decode_batch
from tests.support.stepped_clock import SteppedClock, settle
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import put_topic

DENIED = Decision(False, NO_ACL)


class Log:
    """The only partition of the topic."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def append(self, records: memoryview, **options: Any) -> None:
        self.events += [json.loads(record.value or b"") for record in decode_batch(records)]


class AuditedNode:
    def __init__(self, *, is_enforced: bool = True, to_topic: bool = True) -> None:
        self.clock = SteppedClock()
        self.metrics = Metrics({})
        self.audit = Audit(self.clock, self.metrics, is_enforced=is_enforced, to_topic=to_topic)
        self.log = Log()
        self.node = FakeNode()
        put_topic(self.node, AUDIT, 1)
        self.node.context.replicas.find = self._find  # type: ignore[method-assign]
        self.has_log = True
        self.rights = Rights(Authorizer(), user("bob"), "10.0.0.1")

    def _find(self, name: str, index: int) -> Any:
        return self.log if self.has_log else None

    def start(self) -> None:
        self.audit.start(self.node.context, None)  # type: ignore[arg-type]

    def deny(self, name: str = "orders", decision: Decision = DENIED) -> None:
        self.audit.note(self.rights, Operation.READ, ResourceType.TOPIC, name, decision, ApiKey.FETCH)

    async def second(self) -> None:
        await self.clock.advance(1.1)
        await settle()


async def test_events_are_written_once_a_second() -> None:
    node = AuditedNode()
    node.start()
    for _ in range(3):
        node.deny()
    assert node.log.events == []
    await node.second()
    (event,) = node.log.events
    assert (event["principal"], event["host"], event["api"], event["operation"], event["resource"]) == (
        "User:bob",
        "10.0.0.1",
        "Fetch",
        "READ",
        "orders",
    )
    assert (event["verdict"], event["enforced"], event["rule"], event["count"]) == ("denied", True, NO_ACL, 3)
    await node.second()
    assert len(node.log.events) == 1
    node.deny()
    await node.second()
    assert len(node.log.events) == 2
    node.audit.stop()


async def test_in_audit_mode_a_denial_is_not_enforced() -> None:
    node = AuditedNode(is_enforced=False)
    node.start()
    node.deny()
    node.deny(decision=Decision(True, NO_ACL))
    await node.second()
    seen = [(event["verdict"], event["enforced"]) for event in node.log.events]
    assert seen == [
        ("denied", False),
        ("allowed", True),
    ]
    node.audit.stop()


async def test_what_super_users_may_do_is_not_recorded() -> None:
    node = AuditedNode()
    node.deny(decision=Decision(True, SUPER_USER))
    assert node.metrics.audit_events.value == 0


async def test_events_wait_until_the_topic_can_be_written(caplog: pytest.LogCaptureFixture) -> None:
    node = AuditedNode()
    node.start()
    node.has_log = False
    for number in range(BATCH_COUNT_MAX + 5):
        node.deny(str(number))
    for _ in range(3):
        await node.second()
    assert [record.levelname for record in caplog.records].count("WARNING") == 1, "it is said once"
    node.has_log = True
    await node.second()
    assert sorted(int(event["resource"]) for event in node.log.events) == list(range(BATCH_COUNT_MAX + 5))
    node.audit.stop()


async def test_another_node_may_lead_the_topic() -> None:
    node = AuditedNode()
    asked: list[int] = []

    class Peers:
        async def ask(self, node_id: int, api_key: int, request: Any, **options: Any) -> Any:
            asked.append(node_id)
            raise PeerUnavailable("down")

    node.node.context.node_id = NodeId(9)
    node.audit.start(node.node.context, Peers())  # type: ignore[arg-type]
    node.deny()
    await node.second()
    await node.second()
    assert asked == [1, 1]
    node.audit.stop()


async def test_the_log_has_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = AuditedNode(to_topic=False)
    for number in range(50):
        node.deny(str(number))
    await node.second()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == LINES_MAX + 1
    assert lines[0] == f"denied 'User:bob' from 10.0.0.1 read 'topic:0' for Fetch: '{NO_ACL}'"
    assert lines[-1] == "30 more events are not logged"
    assert node.log.events == []


async def test_a_full_buffer_drops_events_and_counts_them() -> None:
    node = AuditedNode()
    node.audit._buffer._events_max = 2
    for name in "abcda":
        node.deny(name)
    assert (node.metrics.audit_events.value, node.metrics.audit_dropped.value) == (5, 2)
    node.audit.stop()
