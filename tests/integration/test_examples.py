"""Tests that every script under examples/ does what its docstring promises."""

import ast
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Message, TopicPartition

from examples import (
    at_least_once,
    at_most_once,
    auto_commit,
    compacted_table,
    core_operations,
    exactly_once,
    external_offsets,
    worker_with_dlq,
)
from penstock.testing import Broker
from tests.integration.conftest import Fill
from tests.support.command import penstock

SCRIPTS = Path(__file__).parents[2] / "examples"
Run = Callable[..., int]


class Crash(Exception):
    """The crash of a run."""


# A process, because librdkafka may abort when a producer with an open transaction is destroyed. It leaves the group
# first: otherwise the next run would wait until the session of its member has expired.
CRASH_IN_TRANSACTION = """
import os, sys
from examples import exactly_once

calls = iter(range(100))

def negate(message):
    if next(calls) == int(sys.argv[5]):
        raise ZeroDivisionError
    return b"-" + (message.value() or b"")

try:
    exactly_once.run(*sys.argv[1:5], negate, idle_polls_max=1)
except ZeroDivisionError:
    os._exit(9)
"""


class Abortable:
    """An error of librdkafka that requires an abort of the transaction."""

    def retriable(self) -> bool:
        return False

    def txn_requires_abort(self) -> bool:
        return True


@pytest.fixture
def core(group_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_operations, "BOOTSTRAP", group_broker.bootstrap)


def numbered(count: int) -> list[tuple[str | None, str]]:
    return [(f"k{number % 3}", str(number)) for number in range(count)]


def collect(run: Run, bootstrap: str, topic: str, *, crash_at: int | None = None) -> list[str]:
    """Run an example and return the values it processed; it crashes after this many."""
    seen: list[str] = []

    def handle(message: Message) -> None:
        if len(seen) == crash_at:
            raise Crash
        seen.append((message.value() or b"").decode())

    try:
        run(bootstrap, topic, f"group-of-{topic}", handle, idle_polls_max=1)
    except Crash:
        assert crash_at is not None
    return seen


def test_the_core_operations_run_as_a_script(group_broker: Broker) -> None:
    words = [sys.executable, str(SCRIPTS / "core_operations.py"), group_broker.bootstrap]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("produced core-operations-0@") == 5
    assert "consumed b'key-0' b'value-0' at 0" in done.stdout
    assert done.stdout.splitlines()[-1] == "consumed again b'key-4' b'value-4' at 4"


def test_produce_reports_partition_and_offset(core: None) -> None:
    core_operations.create_topic("core-produce", partitions=1)
    core_operations.create_topic("core-produce", partitions=1)
    placed = [core_operations.produce("core-produce", "key", f"value {number}", acks="all") for number in range(3)]
    assert placed == [(0, 0), (0, 1), (0, 2)]
    assert core_operations.produce("core-produce", None, None, acks="1") == (0, 3)


def test_consume_continues_at_the_committed_offset(core: None) -> None:
    core_operations.create_topic("core-consume", partitions=1)
    for number in range(6):
        core_operations.produce("core-consume", "key", str(number))
    first = core_operations.consume("core-consume", ["core-consume"], max_messages=4)
    rest = core_operations.consume("core-consume", ["core-consume"], max_messages=2)
    assert [message.value() for message in first + rest] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_an_offset_is_committed_without_subscribing(core: None) -> None:
    core_operations.create_topic("core-commit", partitions=1)
    for number in range(5):
        core_operations.produce("core-commit", "key", str(number))
    core_operations.commit_offset("core-commit", "core-commit", partition=0, offset=3)
    read = core_operations.consume("core-commit", ["core-commit"], max_messages=2)
    assert [message.offset() for message in read] == [3, 4]


@pytest.mark.parametrize("example", [at_least_once, auto_commit])
def test_at_least_once_loses_nothing_in_a_crash(example: object, group_broker: Broker, fill: Fill) -> None:
    run: Run = example.run  # type: ignore[attr-defined]
    topic = fill(numbered(25), partitions=2)
    before = collect(run, group_broker.bootstrap, topic, crash_at=10)
    after = collect(run, group_broker.bootstrap, topic)
    assert len(before) == 10
    assert sorted(before + after, key=int) == [value for _, value in numbered(25)]
    assert collect(run, group_broker.bootstrap, topic) == []


def test_at_most_once_handles_nothing_twice_in_a_crash(group_broker: Broker, fill: Fill) -> None:
    topic = fill(numbered(25))
    before = collect(at_most_once.run, group_broker.bootstrap, topic, crash_at=13)
    after = collect(at_most_once.run, group_broker.bootstrap, topic)
    assert before == [str(number) for number in range(13)]
    assert after, "the batches after the crash arrive"
    assert not set(before) & set(after)


@pytest.mark.parametrize("crash_at", [0, 13, 24])
def test_exactly_once_writes_each_result_once_in_a_crash(crash_at: int, group_broker: Broker, fill: Fill) -> None:
    topic = fill(numbered(25), partitions=2)
    target = fill([])
    group = f"group-of-{topic}"

    def negate(message: Message) -> bytes:
        return b"-" + (message.value() or b"")

    words = [sys.executable, "-c", CRASH_IN_TRANSACTION, group_broker.bootstrap, topic, group, target, str(crash_at)]
    crashed = subprocess.run(words, cwd=SCRIPTS.parent, capture_output=True, text=True, timeout=60, check=False)
    assert crashed.returncode == 9, crashed.stderr
    assert exactly_once.run(group_broker.bootstrap, topic, group, target, negate, idle_polls_max=1) == 25
    shown = collect(at_least_once.run, group_broker.bootstrap, target)
    assert sorted(map(int, shown)) == [-number for number in range(24, -1, -1)]


def test_an_aborted_transaction_of_the_example_is_retried(
    group_broker: Broker, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fill(numbered(10))
    target = fill([])
    ends = exactly_once.ends
    refusals = iter([True])

    def ends_of_another(messages: list[Message]) -> list[TopicPartition]:
        if next(refusals, False):
            raise KafkaException(Abortable())
        return ends(messages)

    monkeypatch.setattr(exactly_once, "ends", ends_of_another)
    done = exactly_once.run(
        group_broker.bootstrap, topic, topic, target, lambda message: message.value() or b"", idle_polls_max=1
    )
    assert done == 10
    assert collect(at_least_once.run, group_broker.bootstrap, target) == [str(number) for number in range(10)]


def test_offsets_in_the_database_count_every_record_once(
    group_broker: Broker, fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "totals.sqlite"
    topic = fill([(f"k{number % 3}", str(number)) for number in range(30)], partitions=2)
    apply = external_offsets.apply
    calls = iter(range(100))

    def apply_some(store: sqlite3.Connection, message: Message) -> None:
        if next(calls) == 11:
            raise Crash
        apply(store, message)

    monkeypatch.setattr(external_offsets, "apply", apply_some)
    with pytest.raises(Crash):
        external_offsets.run(group_broker.bootstrap, topic, database, idle_polls_max=1)
    assert external_offsets.run(group_broker.bootstrap, topic, database, idle_polls_max=1) == 19
    fill([("k0", "1000")], topic=topic)
    assert external_offsets.run(group_broker.bootstrap, topic, database, idle_polls_max=1) == 1
    store = sqlite3.connect(database)
    totals = dict(store.execute("SELECT key, amount FROM totals"))
    store.close()
    assert totals == {"k0": 135 + 1000, "k1": 145, "k2": 155}


def test_a_database_that_is_ahead_stops_the_second_process(
    group_broker: Broker, fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "totals.sqlite"
    topic = fill([("k", "1"), ("k", "2")])
    starts = external_offsets.starts
    external_offsets.run(group_broker.bootstrap, topic, database, idle_polls_max=1)

    def from_the_beginning(*given: object) -> object:
        found = starts(*given)  # type: ignore[arg-type]
        for partition in found:
            partition.offset = 0
        return found

    monkeypatch.setattr(external_offsets, "starts", from_the_beginning)
    with pytest.raises(RuntimeError, match="already counted"):
        external_offsets.run(group_broker.bootstrap, topic, database, idle_polls_max=1)


def test_the_worker_dead_letters_records_it_cannot_handle(group_broker: Broker, fill: Fill) -> None:
    orders = [(f"k{number}", json.dumps({"amount": number})) for number in range(10)]
    topic = fill([*orders, ("bad", "not json"), ("owed", json.dumps({"amount": -1}))])
    counts = worker_with_dlq.run(group_broker.bootstrap, topic, f"group-of-{topic}", idle_stop_s=0.5)
    assert (counts.succeeded, counts.dead_lettered, counts.retried) == (10, 2, 2)
    shown = penstock("dlq", "show", topic, "--format", "json", "--bootstrap", group_broker.bootstrap)
    letters = [json.loads(line) for line in shown.out.splitlines()]
    assert {letter["key"]: letter["death"]["attempts"] for letter in letters} == {"bad": 1, "owed": 3}


def _heed_interrupts() -> None:
    """Restore SIGINT: a shell that runs the tests in the background ignores it, and a child would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("name", ["at_least_once", "at_most_once", "auto_commit", "worker_with_dlq"])
def test_each_example_runs_as_a_script_until_it_is_interrupted(name: str, group_broker: Broker, fill: Fill) -> None:
    topic = fill([("anna", json.dumps({"amount": 3})), ("bob", json.dumps({"amount": 4}))])
    words = [sys.executable, "-u", str(SCRIPTS / f"{name}.py"), group_broker.bootstrap, topic, f"script-{name}"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.readline() + process.stdout.readline()
        assert "anna" in printed and "bob" in printed
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in errors, errors
    described = penstock("group", "lag", f"script-{name}", "--format", "json", "--bootstrap", group_broker.bootstrap)
    # The signal may arrive between processing the last record and recording that.
    assert [row["lag"] for row in described.json()] in ([0], [1])


def test_the_exactly_once_example_runs_as_a_script(group_broker: Broker, fill: Fill) -> None:
    topic, target = fill([("anna", "pear"), ("bob", "plum")]), fill([])
    words = [sys.executable, str(SCRIPTS / "exactly_once.py"), group_broker.bootstrap, topic, "script-once", target]
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
    ) as process:
        shown: list[str] = []
        while len(shown) < 2 and process.poll() is None:
            shown += collect(at_least_once.run, group_broker.bootstrap, target)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert shown == ["PEAR", "PLUM"]
    assert process.returncode == 0 and "Traceback" not in errors, errors


NEEDS_ARGUMENTS = sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem not in ("core_operations", "routing"))


@pytest.mark.parametrize("name", NEEDS_ARGUMENTS)
def test_each_example_prints_its_usage_if_arguments_are_missing(name: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPTS / f"{name}.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    assert f"python examples/{name}.py " in done.stderr


def test_a_table_is_rebuilt_from_a_compacted_topic(group_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = "compacted-table"
    compacted_table.main([group_broker.bootstrap, topic, "fill", "700", "40"])
    compacted_table.make_topic(group_broker.bootstrap, topic)
    found = compacted_table.rebuild(group_broker.bootstrap, topic)
    assert found.records_read == 700
    deleted = {f"key-{number * 7919 % 40:09d}".encode() for number in range(660, 700) if number % 100 == 99}
    assert len(found.table) == 40 - len(deleted)
    assert not deleted & found.table.keys()
    compacted_table.main([group_broker.bootstrap, topic])
    assert capsys.readouterr().out.startswith(f"{len(found.table)} keys from 700 records in ")
    with pytest.raises(SystemExit):
        compacted_table.main([])


def test_routing_prints_the_partitions_of_records(group_broker: Broker) -> None:
    command = [sys.executable, str(SCRIPTS / "routing.py"), "--bootstrap", group_broker.bootstrap]
    lines = subprocess.run(command, capture_output=True, timeout=60, check=True, text=True).stdout.splitlines()
    landed = {line[:11].strip(): ast.literal_eval(line[11:].strip()) for line in lines}
    assert set(landed["round-robin"].values()) == {100}
    assert landed["custom rule"][0] == 40
    assert len(landed["by key"]) == 4
    assert all(sum(counts.values()) == 400 for counts in landed.values())
