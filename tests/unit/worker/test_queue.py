"""The loop of a worker in a share group, without a broker."""

import threading
from typing import Any
from unittest.mock import Mock

import pytest

from penstock.worker import queue
from penstock.worker.engine import Counts
from penstock.worker.options import Retry
from penstock.worker.queue import RELEASED, QueueLoop
from penstock.worker.record import Record


def test_a_worker_that_stops_finishes_running_handlers_and_releases_the_other_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopping, handled = threading.Event(), []

    def handle(record: Record) -> None:
        handled.append(record)
        stopping.set()

    consumer: Any = Mock()
    consumer.poll.return_value = [Mock(**{"error.return_value": None}) for _ in range(3)]
    consumer.commit_sync.return_value = {}
    monkeypatch.setattr("confluent_kafka.ShareConsumer", lambda settings: consumer)
    monkeypatch.setattr(queue, "from_message", lambda message: message)
    monkeypatch.setattr(queue, "_type_of", lambda outcome: outcome)
    counts = Counts()
    QueueLoop(
        handle,
        topics=["jobs"],
        settings={},
        concurrency=1,
        retry=Retry(),
        counts=counts,
        is_stopping=stopping.is_set,
    ).run(None)
    assert len(handled) == 1
    outcomes = [call.args[1] for call in consumer.acknowledge.call_args_list]
    assert outcomes == ["accepted", RELEASED, RELEASED]
    consumer.commit_sync.assert_called_once()
    consumer.close.assert_called_once()
