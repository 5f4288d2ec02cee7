"""The worker over a client that follows a script; what Kafka does in earnest is in tests/integration."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.worker import Record, Worker
from penstock.worker import worker as worker_module
from penstock.worker.lanes import Place

WAIT_S = 10.0
ZERO, ONE = ("t", 0), ("t", 1)


class Message:
    """As much of a message as the worker asks for."""

    def __init__(self, place: Place, offset: int, error: KafkaError | None = None) -> None:
        self._place, self._offset, self._error = place, offset, error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

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
    """A consumer whose polls return or call what the script says, one entry each; then the worker is stopped."""

    def __init__(self) -> None:
        self.worker: Worker
        self.steps: list[Message | Callable[[], object] | None] = []
        self.commits: list[dict[Place, int]] = []
        self.commit_errors: list[KafkaError] = []
        self.sought: list[tuple[Place, int]] = []
        self.paused: set[Place] = set()
        self.was_paused = False
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
        return step

    def tell(self, what: str, *places: Place) -> Callable[[], object]:
        return lambda: self._callbacks[what](self, [TopicPartition(*place) for place in places])

    def drain(self) -> None:
        """Wait until all that was taken over is handled."""
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


def test_what_is_done_is_committed(script: Script) -> None:
    seen: list[int] = []
    script.steps = [script.tell("on_assign", ZERO), Message(ZERO, 0), Message(ZERO, 1), script.drain]
    run(script, lambda record: seen.append(record.offset))
    assert seen == [0, 1]
    assert script.commits[-1] == {ZERO: 2}


def test_a_worker_that_has_ended_does_not_run_again(script: Script) -> None:
    worker = run(script, lambda record: None)
    with pytest.raises(RuntimeError, match="runs once"):
        worker.run(signals=False)


def test_a_commit_that_nobody_waited_for_and_that_failed_is_said_again(script: Script) -> None:
    script.commit_errors = [KafkaError(KafkaError.REBALANCE_IN_PROGRESS)]
    script.steps = [script.tell("on_assign", ZERO), Message(ZERO, 0), script.drain, None, None]
    run(script, lambda record: None)
    assert script.commits == [{ZERO: 1}]


def test_revoked_partitions_are_committed_and_only_they(script: Script) -> None:
    script.steps = [
        script.tell("on_assign", ZERO, ONE), Message(ZERO, 4), Message(ONE, 9), script.drain,
        script.tell("on_revoke", ONE),
    ]  # fmt: skip
    run(script, lambda record: None, commit_every_s=60)
    assert script.commits == [{ONE: 10}, {ZERO: 5}]


def test_lost_partitions_are_not_committed(script: Script) -> None:
    script.steps = [script.tell("on_assign", ZERO), Message(ZERO, 4), script.drain, script.tell("on_lost", ZERO)]
    run(script, lambda record: None, commit_every_s=60)
    assert script.commits == []


def test_a_partition_that_comes_back_begins_where_its_next_owner_left_it(script: Script) -> None:
    script.steps = [
        script.tell("on_assign", ZERO), Message(ZERO, 0), script.drain, script.tell("on_revoke", ZERO),
        script.tell("on_assign", ZERO), Message(ZERO, 50), script.drain,
    ]  # fmt: skip
    run(script, lambda record: None, commit_every_s=60)
    assert script.commits == [{ZERO: 1}, {ZERO: 51}]


def test_too_much_in_flight_pauses_and_room_resumes(script: Script) -> None:
    import threading

    hold = threading.Event()
    script.steps = [
        script.tell("on_assign", ZERO), Message(ZERO, 0), None, Message(ZERO, 1), None, None, hold.set, None
    ]  # fmt: skip
    worker = run(script, lambda record: cast(None, hold.wait(WAIT_S)), in_flight_max=2)
    assert script.was_paused
    assert script.paused == set()
    assert worker.counts.taken == 2


def test_at_most_once_commits_first(script: Script) -> None:
    committed: list[int] = []
    script.steps = [script.tell("on_assign", ZERO), Message(ZERO, 0), Message(ZERO, 1), None, script.drain]
    run(script, lambda record: committed.append(script.commits[-1][ZERO]), delivery="at-most-once")
    assert committed == [2, 2]
    assert script.commits == [{ZERO: 2}]


def test_at_most_once_reads_again_what_it_could_not_commit(script: Script) -> None:
    seen: list[int] = []
    script.commit_errors = [KafkaError(KafkaError.REBALANCE_IN_PROGRESS)]
    script.steps = [
        script.tell("on_assign", ZERO), Message(ZERO, 7), Message(ZERO, 8), None, Message(ZERO, 7), None, script.drain
    ]  # fmt: skip
    run(script, lambda record: seen.append(record.offset), delivery="at-most-once")
    assert script.sought == [(ZERO, 7)]
    assert seen == [7]


def test_at_most_once_forgets_a_batch_whose_partition_went_before_the_commit(script: Script) -> None:
    seen: list[Place] = []
    script.steps = [
        script.tell("on_assign", ZERO, ONE), Message(ZERO, 7), Message(ONE, 3), script.tell("on_revoke", ZERO),
        script.drain,
    ]  # fmt: skip
    run(script, lambda record: seen.append((record.topic, record.partition)), delivery="at-most-once")
    assert seen == [ONE]
    assert script.commits == [{ONE: 4}]


def test_an_error_that_passes_is_passed_over_and_a_fatal_one_is_raised(script: Script) -> None:
    passing = Message(ZERO, 0, KafkaError(KafkaError._TRANSPORT))
    script.steps = [script.tell("on_assign", ZERO), passing, Message(ZERO, 0)]
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
def test_a_worker_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"topics|concurrency|Order"):
        Worker(lambda record: None, **{"topics": ["t"], "group": "g", "bootstrap": "b"} | wrong)


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a step after which ten seconds have passed."""
    now = 0.0
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=lambda: now))

    def step() -> None:
        nonlocal now
        now += 10

    return step


def at_end(place: Place) -> Message:
    return Message(place, -1, KafkaError(KafkaError._PARTITION_EOF))


def test_it_is_not_idle_before_every_partition_is_read_to_its_end(
    script: Script, pass_time: Callable[[], None]
) -> None:
    script.steps = [
        script.tell("on_assign", ZERO, ONE), Message(ZERO, 0), at_end(ZERO), script.drain,
        pass_time, Message(ONE, 0), script.drain, pass_time, at_end(ONE), pass_time, Message(ONE, 1),
    ]  # fmt: skip
    worker = run(script, lambda record: None, idle_stop_s=5)
    assert worker.counts.succeeded == 2
    assert len(script.steps) == 1


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
def test_it_is_not_idle_while_a_rebalance_is_under_way(
    callback: str, script: Script, pass_time: Callable[[], None]
) -> None:
    script.steps = [
        script.tell("on_assign", ZERO), at_end(ZERO), script.tell(callback, ZERO), pass_time,
        script.tell("on_assign", ZERO), pass_time, Message(ZERO, 0), script.drain, at_end(ZERO), pass_time,
        Message(ZERO, 1),
    ]  # fmt: skip
    worker = run(script, lambda record: None, idle_stop_s=5)
    assert worker.counts.succeeded == 1
    assert len(script.steps) == 1


def test_a_member_of_the_consumer_protocol_without_partitions_is_idle(
    script: Script, pass_time: Callable[[], None]
) -> None:
    script.steps = [script.tell("on_assign", ZERO), script.tell("on_revoke", ZERO), pass_time, Message(ZERO, 0)]
    run(script, lambda record: None, idle_stop_s=5, consumer={"group.protocol": "consumer"})
    assert len(script.steps) == 1
