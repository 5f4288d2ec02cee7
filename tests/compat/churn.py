"""Consumers that join and leave a group at random while records are written, for any client library.

`churn` runs them, each in a thread, and then checks what they saw, and the broker's records of the group: everything
is delivered, no partition has two owners, no committed offset decreases.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer as AnyConsumer
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.group_audit import audit
from tests.support.ownership import Ownership

PARTITIONS = 8
MEMBERS_MIN, MEMBERS_MAX = 2, 8
SESSION_MS = 45_000
"""For clients that do not report the loss of partitions. Kafka's default: a member that is slow on a busy machine
must not be expelled, or the ledger would report its partitions as owned twice."""
DRAIN_SECONDS_MAX = 2 * SESSION_MS / 1000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "5",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}
_numbers = itertools.count(1)


class Ledger(Ownership):
    """The combined observations of all members."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def saw(self, numbers: Iterable[int]) -> None:
        with self.lock:
            self.seen.update(numbers)


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """The cluster, topic and group of a run."""

    bootstrap: str
    topic: str
    group: str


Run = Callable[[GroupTarget, str, threading.Event, Ledger], None]
"""Run a member of that name until the event is set: read, record in the ledger, commit; then leave."""


@dataclass
class _Member:
    leaving: threading.Event
    thread: threading.Thread


class Crowd:
    """Two to eight members, changed at random."""

    def __init__(self, target: GroupTarget, run: Run, ledger: Ledger, *, seed: int) -> None:
        self._target, self._run, self._ledger = target, run, ledger
        self._chance = random.Random(seed)
        self._names = itertools.count(1)
        self._members: list[_Member] = []
        self._gone: list[_Member] = []

    def churn(self, until: float) -> None:
        for _ in range(MEMBERS_MIN):
            self._join()
        while time.monotonic() < until:
            time.sleep(self._chance.uniform(0.2, 0.9))
            if self._chance.random() < 0.55 and len(self._members) < MEMBERS_MAX:
                self._join()
            elif len(self._members) > MEMBERS_MIN:
                self._leave(self._chance.randrange(len(self._members)))

    def leave_all(self) -> None:
        while self._members:
            self._leave(0)
        for member in self._gone:
            member.thread.join(timeout=DRAIN_SECONDS_MAX)
            if member.thread.is_alive():
                self._ledger.fault(f"{member.thread.name} could not leave")

    @property
    def joined(self) -> int:
        return len(self._members) + len(self._gone)

    def _join(self) -> None:
        name, leaving = f"member-{next(self._names)}", threading.Event()
        thread = threading.Thread(target=self._guarded, args=(name, leaving), name=name, daemon=True)
        self._members.append(_Member(leaving, thread))
        thread.start()

    def _leave(self, index: int) -> None:
        member = self._members.pop(index)
        member.leaving.set()
        self._gone.append(member)

    def _guarded(self, name: str, leaving: threading.Event) -> None:
        try:
            self._run(self._target, name, leaving, self._ledger)
        except Exception as error:
            self._ledger.fault(f"{name}: {type(error).__name__}: {error}")


class Stream:
    """A producer that writes numbers at a steady rate, from a thread."""

    def __init__(self, target: GroupTarget, *, count: int, seconds: float) -> None:
        self._target, self._count, self._pause = target, count, seconds / count
        self._errors: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._thread.join(timeout=60)
        assert not self._thread.is_alive(), "the producer did not finish"
        assert not self._errors, self._errors[:3]

    def _run(self) -> None:
        settings = {"bootstrap.servers": self._target.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({**settings, "log_level": 2})
        started = time.monotonic()
        for number in range(self._count):
            producer.produce(
                self._target.topic, str(number), partition=number % PARTITIONS,
                on_delivery=lambda error, _: self._errors.append(str(error)) if error is not None else None,
            )  # fmt: skip
            producer.poll(0)
            time.sleep(max(0.0, started + number * self._pause - time.monotonic()))
        if producer.flush(60):
            self._errors.append("not everything was delivered")


def new_target(bootstrap: str) -> GroupTarget:
    topic = f"churn-{os.getpid()}-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    return GroupTarget(bootstrap, topic, f"{topic}-group")


def check_churn(
    bootstrap: str, run: Run, *, seed: int, seconds: float = 8.0, count: int = 2000,
    in_the_middle: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Let members join and leave for this many seconds, then check the guarantees."""
    target, ledger = new_target(bootstrap), Ledger()
    crowd, stream = Crowd(target, run, ledger, seed=seed), Stream(target, count=count, seconds=seconds)
    started = time.monotonic()
    stream.start()
    wanted, ends = set(range(count)), [len(range(index, count, PARTITIONS)) for index in range(PARTITIONS)]
    try:
        if in_the_middle is not None:
            crowd.churn(started + seconds / 2)
            in_the_middle()
            # An expelled member learns late that its partitions have another owner: the broker's records decide.
            ledger.forget_faults()
        crowd.churn(started + seconds)
        stream.finish()
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while time.monotonic() < deadline and (ledger.seen != wanted or committed(target) != ends):
            time.sleep(0.2)
        found = committed(target)
    finally:
        crowd.leave_all()
    missing = wanted - ledger.seen
    assert not missing, f"{len(missing)} of {count} were never delivered, {sorted(missing)[:5]}; {ledger.faults}"
    assert found == ends, ledger.faults
    history = audit(bootstrap, target.group)
    assert not history.faults, history.faults
    assert history.generations >= crowd.joined / 2, "the members hardly rebalanced"
    if in_the_middle is None:
        assert not ledger.faults, ledger.faults


def committed(target: GroupTarget) -> list[int]:
    reader = AnyConsumer({"bootstrap.servers": target.bootstrap, "group.id": target.group, "log_level": 2})
    try:
        asked = [TopicPartition(target.topic, index) for index in range(PARTITIONS)]
        return [one.offset for one in reader.committed(asked, timeout=60)]
    finally:
        reader.close()
