"""Which responses make the client repeat a request."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_client.errors import TOPIC_EXISTS, UNKNOWN_TOPIC, BrokerError, PenstockClientError
from penstock_client.protocol.cluster import LATEST, Cluster, Topic
from penstock_client.protocol.coordination import Transaction, add_partitions
from penstock_client.protocol.wire import Reader

NOT_CONTROLLER, POLICY_VIOLATION = 41, 44
TOPIC = "new"


class Scripted(Cluster):
    """A cluster that responds to CreateTopics with these error codes in turn; the last one lasts."""

    def __init__(self, *codes: int) -> None:
        super().__init__("nowhere:1", deadline_s=0.05)
        self.codes = list(codes)
        self.requests = 0

    def any(self) -> Any:
        def call(*_: object) -> Reader:
            self.requests += 1
            code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
            name = b"decisions"
            return Reader(bytearray(struct.pack(">iih9sh", 0, 1, len(name), name, code) + bytes(16)), compact=False)

        return SimpleNamespace(call=call)

    def create(self) -> int:
        return self.create_topic("decisions", partitions=1, replicas=3, configs={})


@pytest.mark.parametrize("code", [0, TOPIC_EXISTS, POLICY_VIOLATION])
def test_the_creation_of_a_topic_is_not_repeated_after_a_final_response(code: int) -> None:
    cluster = Scripted(code)
    assert (cluster.create(), cluster.requests) == (code, 1)


def test_the_creation_of_a_topic_is_repeated_while_the_controller_moves() -> None:
    cluster = Scripted(NOT_CONTROLLER, 0)
    assert (cluster.create(), cluster.requests) == (0, 2)


def test_the_creation_of_a_topic_fails_if_no_controller_is_found() -> None:
    with pytest.raises(BrokerError, match="creating topic 'decisions': the broker responded with NOT_CONTROLLER"):
        Scripted(NOT_CONTROLLER).create()


class NewTopic(Cluster):
    """A cluster whose brokers do not know a topic for a number of requests, although metadata contains it."""

    def __init__(self, unknown: int, *, is_deleted: bool = False) -> None:
        super().__init__("nowhere:1")
        self.unknown = unknown
        self.is_deleted = is_deleted
        self.topics[TOPIC] = Topic(TOPIC, b"i" * 16, {0: 1})

    def refresh(self, names: object = ()) -> dict[str, Topic]:
        if self.is_deleted:
            self.topics.clear()
        return self.topics

    def to_node(self, node: int, lane: str = "calls") -> Any:
        return SimpleNamespace(call=self._call)

    def coordinator(self, kind: int, key: str) -> Any:
        return self.to_node(1)

    def _call(self, *_: object) -> Reader:
        code = UNKNOWN_TOPIC if self.unknown else 0
        self.unknown -= 1
        name = TOPIC.encode()
        # The fields that follow the error code are those of ListOffsets.
        fields = struct.pack(">iih3siihqqi", 0, 1, len(name), name, 1, 0, code, -1, 42, 0)
        return Reader(bytearray(fields + bytes(16)), compact=False)

    def end(self) -> int:
        return self.list_offsets({(TOPIC, 0): LATEST})[TOPIC, 0]

    def add(self) -> None:
        add_partitions(self, Transaction("t", 1, 0), [(TOPIC, 0)])


def test_a_broker_that_does_not_know_a_new_topic_yet_is_asked_again() -> None:
    assert NewTopic(2).end() == 42
    NewTopic(2).add()


@pytest.mark.parametrize("request_of", [NewTopic.end, NewTopic.add])
def test_a_topic_that_was_deleted_is_reported(request_of: Any) -> None:
    with pytest.raises(PenstockClientError, match="topic 'new' does not exist"):
        request_of(NewTopic(2, is_deleted=True))
