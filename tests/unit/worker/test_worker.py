"""Tests of the worker with a scripted client; tests/integration runs it against a real broker."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.worker import Record, Worker
from penstock.worker import worker as worker_module
from penstock.worker.lanes import PartitionId

WAIT_S = 10.0
ZERO, ONE = ("t", 0), ("t", 1)


class Message:
    """The parts of a message that the worker uses."""

    def __init__(self, partition: PartitionId, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def topic(self) -> str:
        return self._partition[0]

    def partition(self) -> int:
        return self._partition[1]

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def error(self) -> KafkaError | None:
        return self._error


class Script:
    """A consumer whose polls return or call one entry of the script each; then the worker is stopped."""

    def __init__(self) -> None:
        self.worker: Worker
        self.steps: list[Message | Callable[[], object] | None] = []
        self.commits: list[dict[PartitionId, int]] = []
        self.commit_errors: list[KafkaError] = []
        self.sought: list[tuple[PartitionId, int]] = []
        self.paused: set[PartitionId] = set()
        self.was_paused = False
        self.positions: dict[PartitionId, int] = {}
        self.closed = False
        self._callbacks: dict[str, Any] = {}

    def __call__(self, settings: dict[str, Any]) -> "Script":
        assert settings["enable.auto.commit"] is False
        self._callbacks["on_commit"] = settings["on_commit"]
        return self

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self._callbacks |= callbacks

    def poll(self, timeout_s: float) -> Any:
        if not self.steps:
            self.worker.stop()
            return None
        step = self.steps.pop(0)
        if callable(step):
            step()
            return None
        if step is not None and step.error() is None:
            self.positions[step.topic(), step.partition()] = step.offset() + 1
        return step

    def event(self, what: str, *partitions: PartitionId) -> Callable[[], object]:
        return lambda: self._callbacks[what](self, [TopicPartition(*partition) for partition in partitions])

    def drain(self) -> None:
        """Wait until all submitted records are handled."""
        assert self.worker._engine.wait_for_room(0, timeout_s=WAIT_S)

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        if self.commit_errors:
            error = self.commit_errors.pop(0)
            if not asynchronous:
                raise KafkaException(error)
            self._callbacks["on_commit"](error, offsets)
            return []
        self.commits.append({(entry.topic, entry.partition): entry.offset for entry in offsets})
        return list(offsets)

    def seek(self, partition: TopicPartition) -> None:
        self.sought.append(((partition.topic, partition.partition), partition.offset))

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused |= {(entry.topic, entry.partition) for entry in partitions}
        self.was_paused = True

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [
            TopicPartition(entry.topic, entry.partition, self.positions.get((entry.topic, entry.partition), -1001))
            for entry in partitions
        ]

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused -= {(entry.topic, entry.partition) for entry in partitions}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()
    monkeypatch.setattr(confluent_kafka, "Consumer", made)
    return made


def run(
    script: Script, handler: Callable[[Record], None], *, idle_stop_s: float | None = None, **options: Any
) -> Worker:
    script.worker = Worker(
        handler, topics=["t"], group="g", bootstrap="nowhere:1", dead_letters=None, **{"commit_every_s": 0} | options
    )
    script.worker.run(signals=False, idle_stop_s=idle_stop_s)
    assert script.closed
    return script.worker


def test_finished_records_are_committed(script: Script) -> None:
    seen: list[int] = []
    script.steps = [script.event("on_assign", ZERO), Message(ZERO, 0), Message(ZERO, 1), script.drain]
    run(script, lambda record: seen.append(record.offset))
    assert seen == [0, 1]
    assert script.commits[-1] == {ZERO: 2}


def test_a_worker_that_has_stopped_cannot_run_again(script: Script) -> None:
    worker = run(script, lambda record: None)
    with pytest.raises(RuntimeError, match="runs only once"):
        worker.run(signals=False)


def test_a_failed_asynchronous_commit_is_repeated(script: Script) -> None:
    script.commit_errors = [KafkaError(KafkaError.REBALANCE_IN_PROGRESS)]
    script.steps = [script.event("on_assign", ZERO), Message(ZERO, 0), script.drain, None, None]
    run(script, lambda record: None)
    assert script.commits == [{ZERO: 1}]


def test_revoked_partitions_are_committed_and_no_others(script: Script) -> None:
    script.steps = [
        script.event("on_assign", ZERO, ONE), Message(ZERO, 4), Message(ONE, 9), script.drain,
        script.event("on_revoke", ONE),
    ]  # fmt: skip
    run(script, lambda record: None, commit_every_s=60)
    assert script.commits == [{ONE: 10}, {ZERO: 5}]


def test_lost_partitions_are_not_committed(script: Script) -> None:
    script.steps = [
        script.event("on_assign", ZERO),
        Message(ZERO, 4),
        script.drain,
        script.event("on_lost", ZERO),
    ]
    run(script, lambda record: None, commit_every_s=60)
    assert script.commits == []


def test_a_reassigned_partition_starts_at_its_committed_offset(script: Script) -> None:
    script.steps = [
        script.event("on_assign", ZERO), Message(ZERO, 0), script.drain, script.event("on_revoke", ZERO),
        script.event("on_assign", ZERO), Message(ZERO, 50), script.drain,
    ]  # fmt: skip
    run(script, lambda record: None, commit_every_s=60)
    assert script.commits == [{ZERO: 1}, {ZERO: 51}]


def test_too_many_records_in_flight_pause_the_partitions_until_there_is_room(script: Script) -> None:
    import threading

    hold = threading.Event()
    script.steps = [
        script.event("on_assign", ZERO), Message(ZERO, 0), None, Message(ZERO, 1), None, None, hold.set, None
    ]  # fmt: skip
    worker = run(script, lambda record: cast(None, hold.wait(WAIT_S)), in_flight_max=2)
    assert script.was_paused
    assert script.paused == set()
    assert worker.counts.taken == 2


def test_a_partition_that_has_returned_no_record_is_not_paused(script: Script) -> None:
    import threading

    hold = threading.Event()
    paused: list[set[PartitionId]] = []

    def look() -> None:
        paused.append(set(script.paused))

    script.steps = [
        script.event("on_assign", ZERO, ONE), Message(ZERO, 0), Message(ZERO, 1), None, look, Message(ONE, 0), None,
        look, hold.set, None,
    ]  # fmt: skip
    worker = run(script, lambda record: cast(None, hold.wait(WAIT_S)), in_flight_max=2)
    assert paused == [{ZERO}, {ZERO, ONE}]
    assert worker.counts.taken == 3


def test_at_most_once_commits_first(script: Script) -> None:
    committed: list[int] = []
    script.steps = [script.event("on_assign", ZERO), Message(ZERO, 0), Message(ZERO, 1), None, script.drain]
    run(script, lambda record: committed.append(script.commits[-1][ZERO]), delivery="at-most-once")
    assert committed == [2, 2]
    assert script.commits == [{ZERO: 2}]


def test_at_most_once_reads_a_batch_again_if_its_commit_failed(script: Script) -> None:
    seen: list[int] = []
    script.commit_errors = [KafkaError(KafkaError.REBALANCE_IN_PROGRESS)]
    script.steps = [
        script.event("on_assign", ZERO), Message(ZERO, 7), Message(ZERO, 8), None, Message(ZERO, 7), None, script.drain
    ]  # fmt: skip
    run(script, lambda record: seen.append(record.offset), delivery="at-most-once")
    assert script.sought == [(ZERO, 7)]
    assert seen == [7]


def test_at_most_once_drops_a_batch_whose_partition_was_revoked_before_the_commit(script: Script) -> None:
    seen: list[PartitionId] = []
    script.steps = [
        script.event("on_assign", ZERO, ONE), Message(ZERO, 7), Message(ONE, 3), script.event("on_revoke", ZERO),
        script.drain,
    ]  # fmt: skip
    run(script, lambda record: seen.append((record.topic, record.partition)), delivery="at-most-once")
    assert seen == [ONE]
    assert script.commits == [{ONE: 4}]


def test_a_transient_error_is_ignored_and_a_fatal_one_is_raised(script: Script) -> None:
    passing = Message(ZERO, 0, KafkaError(KafkaError._TRANSPORT))
    script.steps = [script.event("on_assign", ZERO), passing, Message(ZERO, 0)]
    assert run(script, lambda record: None).counts.taken == 1
    script.closed = False
    script.steps = [Message(ZERO, 0, KafkaError(KafkaError._FATAL, "fenced", True))]
    with pytest.raises(KafkaException, match="fenced"):
        run(script, lambda record: None)
    assert script.closed


@pytest.mark.parametrize(
    "wrong",
    [{"topics": "t"}, {"topics": []}, {"concurrency": 0}, {"concurrency": 9, "in_flight_max": 8}, {"order": "x"}],
)
def test_invalid_worker_options_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"topics|concurrency|Order"):
        Worker(lambda record: None, **{"topics": ["t"], "group": "g", "bootstrap": "b"} | wrong)


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that advances the clock by ten seconds."""
    now = 0.0
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=lambda: now))

    def step() -> None:
        nonlocal now
        now += 10

    return step


def at_end(partition: PartitionId) -> Message:
    return Message(partition, -1, KafkaError(KafkaError._PARTITION_EOF))


def test_a_worker_is_not_idle_before_every_partition_is_read_to_its_end(
    script: Script, pass_time: Callable[[], None]
) -> None:
    script.steps = [
        script.event("on_assign", ZERO, ONE), Message(ZERO, 0), at_end(ZERO), script.drain,
        pass_time, Message(ONE, 0), script.drain, pass_time, at_end(ONE), pass_time, Message(ONE, 1),
    ]  # fmt: skip
    worker = run(script, lambda record: None, idle_stop_s=5)
    assert worker.counts.succeeded == 2
    assert len(script.steps) == 1


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
def test_a_worker_is_not_idle_during_a_rebalance(callback: str, script: Script, pass_time: Callable[[], None]) -> None:
    script.steps = [
        script.event("on_assign", ZERO), at_end(ZERO), script.event(callback, ZERO), pass_time,
        script.event("on_assign", ZERO), pass_time, Message(ZERO, 0), script.drain, at_end(ZERO), pass_time,
        Message(ZERO, 1),
    ]  # fmt: skip
    worker = run(script, lambda record: None, idle_stop_s=5)
    assert worker.counts.succeeded == 1
    assert len(script.steps) == 1


def test_a_member_of_the_consumer_protocol_without_partitions_is_idle(
    script: Script, pass_time: Callable[[], None]
) -> None:
    script.steps = [
        script.event("on_assign", ZERO),
        script.event("on_revoke", ZERO),
        pass_time,
        Message(ZERO, 0),
    ]
    run(script, lambda record: None, idle_stop_s=5, consumer={"group.protocol": "consumer"})
    assert len(script.steps) == 1
