"""Tests of the decision log, with a list instead of a topic."""

import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock_client.errors import UNKNOWN_TOPIC
from penstock_client.protocol.cluster import Cluster, Topic
from penstock_client.protocol.wire import Reader
from penstock_spark.topics.decisions import BatchDecision, DecisionLog

TOPIC = "decisions"


class OneTopic(Cluster):
    """A cluster that knows one topic and has no connections."""

    def refresh(self, names: object = ()) -> dict[str, Topic]:
        self.topics[TOPIC] = Topic(TOPIC, b"i" * 16, {0: 1})
        return self.topics


class Listed(DecisionLog):
    """A decision log that counts the records it reads."""

    def __init__(self, records: list[BatchDecision], query: str) -> None:
        super().__init__(OneTopic("nowhere:1"), TOPIC, query)
        self.records = records
        self.read = 0

    def _hint(self) -> int:
        return 0

    def _append(self, decision: BatchDecision) -> int:
        self.records.append(decision)
        return len(self.records) - 1

    def _records(self, position: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        for offset in range(position, end):
            self.read += 1
            one = self.records[offset]
            yield offset, one.query.encode(), one.to_json()


@pytest.fixture
def query(request: pytest.FixtureRequest) -> str:
    return cast(str, request.node.name)


def test_a_single_driver_reads_only_records_from_before_its_start(query: str) -> None:
    log = Listed([BatchDecision(query, 0, "before")], query)
    for batch in range(1, 6):
        mine = BatchDecision(query, batch, "me")
        assert log.decide(mine) == mine
    assert log.read == 2, "the earlier one, and its own first"


def test_the_first_of_two_drivers_wins_even_if_the_second_has_read_the_log(query: str) -> None:
    log = Listed([], query)
    log.decide(BatchDecision(query, 0, "me"))
    theirs = BatchDecision(query, 1, "other")
    log.records.append(theirs)
    assert log.decide(BatchDecision(query, 1, "me")) == theirs
    later = BatchDecision(query, 2, "me")
    assert log.decide(later) == later


def test_a_log_that_was_truncated_is_read_again(query: str) -> None:
    log = Listed([], query)
    for batch in range(3):
        log.decide(BatchDecision(query, batch, "me"))
    del log.records[1:]
    again = BatchDecision(query, 1, "me")
    assert log.decide(again) == again


class NewTopic(OneTopic):
    """A cluster whose leader does not know the topic in the first request."""

    codes = (UNKNOWN_TOPIC, 0)
    requests = 0

    def to_node(self, node: int, lane: str = "calls") -> Any:
        def call(*_: object) -> Reader:
            code = self.codes[self.requests]
            self.requests += 1
            fields = struct.pack(">ih9siihq", 1, len(TOPIC), TOPIC.encode(), 1, 0, code, 7)
            return Reader(bytearray(fields + bytes(16)), compact=False)

        return SimpleNamespace(call=call)


def test_a_decision_is_sent_again_to_a_leader_that_does_not_know_the_new_topic_yet(query: str) -> None:
    log = DecisionLog(NewTopic("nowhere:1"), TOPIC, query)
    assert log._append(BatchDecision(query, 0, "me")) == 7
