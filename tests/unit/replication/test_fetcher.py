"""Tests with two fetches in flight: the second response repeats the first one and must change nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import pytest

from penstock.model.ids import NodeId
from penstock.replication import fetcher as module
from penstock.replication.fetcher import Fetcher, Followed

TOPIC = UUID(int=1)
NO_ERROR = 0


class FollowedLog:
    """A log that ends at 616, with the last two records in epoch 3."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = self.durable_offset = 616
        self.epochs = SimpleNamespace(epoch_at=lambda offset: 3 if offset >= 614 else 2)
        self.flusher = MagicMock()
        self.damage = None

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return (3, self.end_offset) if epoch >= 3 and self.end_offset > 614 else (2, min(self.end_offset, 614))


class FollowedPartition:
    topic, topic_id, index, leader_epoch, node_id, isr = "t", TOPIC, 0, 4, 1, (2,)
    high_watermark = 600
    unclean = False

    def __init__(self) -> None:
        self.log: Any = FollowedLog()
        self.done: list[tuple[str, int]] = []
        self.followed: Any = None

    def truncate(self, offset: int) -> None:
        self.done.append(("truncate", offset))
        self.log.end_offset = self.log.durable_offset = offset

    def restart_at(self, offset: int) -> None:
        self.done.append(("begin anew", offset))

    def append_fetched(self, records: memoryview, *, now_ms: int, leader_mark: int) -> None:
        self.done.append(("append", len(records)))
        self.log.end_offset = self.log.durable_offset = self.log.end_offset + len(records)

    def follow_high_watermark(self, mark: int) -> None:
        self.done.append(("mark", mark))


class Stage:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        context = MagicMock()
        context.node_id = NodeId(1)
        context.follower_throttle.passed = 0
        self.fetcher = Fetcher(NodeId(2), 0, context)
        self.fetcher._send_next = lambda: None  # type: ignore[method-assign]
        partition: Any = FollowedPartition()
        self.partition = partition
        self.followed = Followed(partition, self.fetcher)
        self.fetcher._followed[self.followed.key] = self.followed
        self.answers: Any = None
        monkeypatch.setattr(module, "read_response", lambda frame: self.answers)
        self.name(0)

    def name(self, request_id: int) -> None:
        """Send a request with the current end of the log."""
        if self.followed.requested is None:
            self.followed.requested_in = request_id
        self.followed.requested, self.followed.named_in = self.followed.next_request(1000), request_id

    def answered(self, request_id: int, *, diverging: Any = None, records: bytes | None = None) -> None:
        row = (TOPIC.bytes, 0, NO_ERROR, 610, 0, diverging, None if records is None else memoryview(records))
        self.answers = request_id, SimpleNamespace(error_code=NO_ERROR, session_id=1, rows=[row])
        self.fetcher._in_flight.append(request_id)
        self.fetcher.answered(memoryview(b""))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_repeated_divergence_does_not_truncate_the_log_again(stage: Stage) -> None:
    stage.answered(0, diverging=(2, 614))
    stage.answered(1, diverging=(2, 614))
    assert stage.partition.done == [("truncate", 614)]


def test_repeated_records_are_appended_once_and_the_high_watermark_is_applied(stage: Stage) -> None:
    stage.answered(0, records=b"ab")
    stage.answered(1, records=b"ab")
    assert stage.partition.done == [("append", 2), ("mark", 610), ("mark", 610)]
    assert stage.followed.resumes is None, "nothing is wrong with it"


def test_a_response_to_an_earlier_request_than_the_one_with_the_new_end_is_not_appended(stage: Stage) -> None:
    stage.answered(0, records=b"ab")
    stage.name(2)
    stage.answered(1, records=b"ab")
    stage.answered(2, records=b"cd")
    assert [what for what in stage.partition.done if what[0] == "append"] == [("append", 2), ("append", 2)]
    assert stage.partition.log.end_offset == 620


def test_a_divergence_at_the_log_end_changes_nothing(stage: Stage) -> None:
    stage.answered(0, diverging=(3, 700))
    assert stage.partition.done == []


def test_a_follower_keeps_records_below_its_high_watermark_when_the_leader_lost_them(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.answered(0, diverging=(2, 599))
    assert stage.partition.done == []
    assert stage.followed.resumes is not None, "it is asked again after a pause"
    assert "The leader has lost records" in caplog.text


def test_a_follower_truncates_below_its_high_watermark_after_an_unclean_election(stage: Stage) -> None:
    stage.partition.unclean = True
    stage.answered(0, diverging=(2, 599))
    assert stage.partition.done == [("truncate", 599)]
