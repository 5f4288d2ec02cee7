"""Tests of penstock group and penstock dlq against a live broker."""

import json
import subprocess
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing import Broker
from penstock.worker import Record, Reject, Worker
from tests.integration.conftest import Fill
from tests.support.command import COMMAND, Outcome, penstock
from tests.support.eventually import eventually


@pytest.fixture
def at(group_broker: Broker) -> tuple[str, str]:
    return ("--bootstrap", group_broker.bootstrap)


def done(*words: str) -> Outcome:
    outcome = penstock(*words)
    assert outcome.code == 0, outcome.err
    return outcome


def refused(*words: str) -> str:
    outcome = penstock(*words)
    assert outcome.code == 1, outcome.out
    return outcome.err


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(
        offsets=[TopicPartition(topic, index, offset) for index, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def numbered(count: int) -> list[tuple[str | None, str]]:
    return [(f"k{number}", str(number)) for number in range(count)]


def test_a_group_is_listed_described_and_deleted(group_broker: Broker, fill: Fill, at: tuple[str, str]) -> None:
    topic = fill(numbered(20))
    commit(group_broker.bootstrap, topic, topic, {0: 15})
    listed = {row["group"]: row for row in done("group", "list", "--format", "json", *at).json()}
    assert (listed[topic]["state"], listed[topic]["type"]) == ("empty", "classic")
    assert topic not in done("group", "list", "--state", "stable", *at).out
    (row,) = done("group", "lag", topic, "--format", "json", *at).json()
    assert (row["committed"], row["end"], row["lag"], row["member"]) == (15, 20, 5, None)
    assert done("group", "lag", topic, *at).out.endswith("total lag 5\n")
    (sums,) = done("group", "lag", topic, "--totals", "--format", "json", *at).json()
    assert sums == {"group": topic, "state": "empty", "members": 0, "partitions": 1, "lag": 5}
    assert "no members" in done("group", "describe", topic, *at).out
    assert done("group", "delete", topic, "--yes", *at).out == f"deleted {topic}\n"
    assert "penstock group list" in refused("group", "describe", topic, *at)
    assert "penstock group list" in refused("group", "delete", topic, "--yes", *at)
    assert "expected one of" in refused("group", "list", "--state", "happy", *at)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_members_of_a_group_are_shown_with_their_partitions(
    protocol: str, group_broker: Broker, fill: Fill, at: tuple[str, str]
) -> None:
    topic = fill(numbered(10), partitions=2)
    consumer = Consumer(
        {
            "bootstrap.servers": group_broker.bootstrap,
            "group.id": topic,
            "client.id": "reader-1",
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is not None or len(consumer.assignment()) == 2)
    (member,) = done("group", "describe", topic, "--format", "json", *at).json()
    assert (member["client_id"], member["host"], member["state"]) == ("reader-1", "127.0.0.1", "stable")
    assert (member["type"], member["partitions"]) == (protocol, [f"{topic}-0", f"{topic}-1"])
    assert "reader-1" in done("group", "describe", topic, *at).out
    rows = done("group", "lag", topic, "--format", "json", *at).json()
    assert [(row["committed"], row["client_id"], row["host"]) for row in rows] == [(None, "reader-1", "127.0.0.1")] * 2
    assert topic in done("group", "list", "--state", "stable", "--type", protocol, *at).out
    words = ("group", "reset", topic, "--topic", topic, "--to-latest")
    assert "Stop them first" in done(*words, *at).err
    assert "reader-1 at 127.0.0.1" in refused(*words, "--execute", *at)
    assert "penstock group describe" in refused("group", "delete", topic, "--yes", *at)
    consumer.close()


def test_offsets_are_reset_only_with_execute(group_broker: Broker, fill: Fill, at: tuple[str, str]) -> None:
    topic = fill(partitions=2)
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    for index in range(2):
        for number in range(10):
            producer.produce(topic, str(number), partition=index, timestamp=1_700_000_000_000 + number * 1000)
    producer.flush(60)
    commit(group_broker.bootstrap, topic, topic, {0: 5, 1: 6})

    def reset(*words: str) -> dict[int, int]:
        rows = done("group", "reset", topic, *words, "--format", "json", *at).json()
        return {row["partition"]: row["new"] for row in rows}

    def now() -> dict[int, int]:
        rows = done("group", "lag", topic, "--format", "json", *at).json()
        return {row["partition"]: row["committed"] for row in rows}

    assert reset("--to-earliest") == {0: 0, 1: 0}
    assert "no offset was changed" in done("group", "reset", topic, "--to-latest", *at).err
    assert now() == {0: 5, 1: 6}
    assert reset("--shift-by=-2", "--execute") == {0: 3, 1: 4}
    assert now() == {0: 3, 1: 4}
    assert reset("--shift-by", "100", "--topic", f"{topic}:1", "--execute") == {1: 10}
    assert reset("--to-timestamp", "1700000004500", "--execute") == {0: 5, 1: 5}
    assert reset("--to-datetime", "2023-11-14T22:13:27Z", "--execute") == {0: 7, 1: 7}
    assert reset("--to-datetime", "1m") == {0: 10, 1: 10}
    assert reset("--to-offset", "2", "--topic", topic, "--execute") == {0: 2, 1: 2}
    assert reset("--to-latest", "--topic", f"{topic}:0", "--execute") == {0: 10}
    assert now() == {0: 10, 1: 2}
    consumer = Consumer({"bootstrap.servers": group_broker.bootstrap, "group.id": topic, "auto.offset.reset": "error"})
    consumer.subscribe([topic])
    first: Any = None
    deadline = time.monotonic() + 20
    while first is None and time.monotonic() < deadline:
        first = consumer.poll(1)
    consumer.close()
    assert (first.partition(), first.offset()) == (1, 2)


def test_an_impossible_reset_says_what_to_do(fill: Fill, at: tuple[str, str]) -> None:
    topic = fill()
    assert "exactly one of" in refused("group", "reset", topic, *at)
    assert "Pass the topics to reset with --topic" in refused("group", "reset", topic, "--to-earliest", *at)
    assert "partitions are 0 to 0" in refused("group", "reset", topic, "--to-earliest", "--topic", f"{topic}:3", *at)
    assert "penstock topic list" in refused("group", "reset", topic, "--to-earliest", "--topic", "nope", *at)
    assert "the group has committed none" in refused("group", "reset", topic, "--shift-by=1", "-t", topic, *at)


def test_offsets_can_be_set_for_a_new_group(fill: Fill, at: tuple[str, str]) -> None:
    topic = fill(numbered(4))
    done("group", "reset", topic, "--topic", topic, "--to-offset", "3", "--execute", *at)
    (row,) = done("group", "lag", topic, "--format", "json", *at).json()
    assert row["lag"] == 1


def test_watch_repeats_until_it_is_interrupted(group_broker: Broker, fill: Fill, at: tuple[str, str]) -> None:
    import signal

    topic = fill(numbered(3))
    commit(group_broker.bootstrap, topic, topic, {0: 1})
    words = [*COMMAND, "group", "lag", topic, "--watch", "--every", "0.1", *at]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("total lag 2  ("):
            assert line, "the command ended unexpectedly"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


@pytest.fixture
def dead(group_broker: Broker, fill: Fill) -> str:
    """Provide a topic whose worker has dead-lettered four of ten records."""

    def handle(record: Record) -> None:
        if record.value in (b"1", b"4"):
            raise Reject(f"no {record.offset}")
        if record.value in (b"6", b"9"):
            raise Reject("timed out") from TimeoutError()

    topic = fill(numbered(10), partitions=2)
    Worker(handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap).run(idle_stop_s=0.3)
    return topic


def test_dead_letters_are_listed_shown_and_filtered(dead: str, at: tuple[str, str]) -> None:
    listed = {row["topic"]: row for row in done("dlq", "list", "--format", "json", *at).json()}
    assert listed[f"{dead}.dlq"] == {"topic": f"{dead}.dlq", "source": dead, "letters": 4, "not_replayed": 4}
    rows = list(map(json.loads, done("dlq", "show", dead, "--format", "json", *at).out.splitlines()))
    assert sorted(row["value"] for row in rows) == ["1", "4", "6", "9"]
    table = done("dlq", "show", f"{dead}.dlq", *at).out
    assert table.count("penstock.worker.options.Reject") == 4
    assert done("dlq", "show", dead, "--contains", "timed out", *at).out.count("Reject") == 2
    assert done("dlq", "show", dead, "--key", "k4", "--error", "Reject", *at).out.count("Reject") == 1
    assert done("dlq", "show", dead, "--error", "KeyError", *at).out.count("\n") == 1
    full = done("dlq", "show", dead, "--full", "--key", "k6", *at).out
    assert "header    n=6" in full
    assert "| TimeoutError" in full
    assert "There are more than 2" in done("dlq", "show", dead, "-n", "2", *at).err
    assert "penstock dlq list" in refused("dlq", "show", "nothing-here", *at)


def test_a_replay_sends_records_back_unchanged_and_once(dead: str, group_broker: Broker, at: tuple[str, str]) -> None:
    before = {
        row["value"]: row for row in map(json.loads, done("consume", dead, "--format", "json", *at).out.splitlines())
    }
    ends = {row["partition"]: row["latest"] for row in done("topic", "describe", dead, "--format", "json", *at).json()}
    rehearsed = done("dlq", "replay", dead, *at)
    assert "4 dead letters would be sent" in rehearsed.err
    assert rehearsed.out.count("Reject") == 4
    assert "1 dead letter of" in done("dlq", "replay", dead, "--key", "k9", "--execute", *at).err
    assert "4 dead letters" in done("dlq", "replay", dead, "--execute", *at).err
    assert "0 dead letters" in done("dlq", "replay", dead, "--execute", *at).err
    after = list(map(json.loads, done("consume", dead, "--format", "json", *at).out.splitlines()))
    back = [row for row in after if row["offset"] >= ends[row["partition"]]]
    assert sorted(row["value"] for row in back) == ["1", "4", "6", "9", "9"]
    for row in back:
        first = before[row["value"]]
        assert {name: row[name] for name in ("key", "headers", "partition")} == {
            name: first[name] for name in ("key", "headers", "partition")
        }
    listed = {row["topic"]: row for row in done("dlq", "list", "--format", "json", *at).json()}
    assert listed[f"{dead}.dlq"]["not_replayed"] == 0
    assert "4 dead letters" in done("dlq", "replay", dead, "--from", "earliest", "--execute", *at).err


def test_a_replay_may_use_another_topic_the_old_timestamps_and_a_rate_limit(
    dead: str, fill: Fill, at: tuple[str, str]
) -> None:
    other = fill()
    began = time.monotonic()
    done("dlq", "replay", dead, "--to", other, "--keep-timestamps", "--rate", "8", "--execute", *at)
    assert time.monotonic() - began > 0.4
    sent, old = (
        {row["key"]: row for row in map(json.loads, done("consume", name, "--format", "json", *at).out.splitlines())}
        for name in (other, dead)
    )
    assert set(sent) == {"k1", "k4", "k6", "k9"}
    assert all(sent[key]["timestamp"] == old[key]["timestamp"] for key in sent)


def test_a_replay_to_a_deleted_topic_is_rejected_and_not_recorded(
    dead: str, group_broker: Broker, at: tuple[str, str]
) -> None:
    done("topic", "delete", dead, "--yes", *at)
    consumer = Consumer({"bootstrap.servers": group_broker.bootstrap, "group.id": "unused"})
    eventually(lambda: dead not in consumer.list_topics(timeout=60).topics)
    consumer.close()
    said = refused("dlq", "replay", f"{dead}.dlq", "--execute", *at)
    assert "pass another topic with --to" in said
    listed = {row["topic"]: row for row in done("dlq", "list", "--format", "json", *at).json()}
    assert listed[f"{dead}.dlq"]["not_replayed"] == 4


def test_a_replay_that_fails_does_not_repeat_the_letters_that_it_sent(
    dead: str, group_broker: Broker, fill: Fill, at: tuple[str, str]
) -> None:
    letters = fill([], partitions=1) + ".dlq"
    done("topic", "create", letters, "--partitions", "1", *at)
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    for topic in (dead, "no-such-topic"):
        names = ("topic", "partition", "offset")
        values = dict(zip(names, (topic, "0", "0"), strict=True))
        headers: list[tuple[str, str | bytes | None]] = [
            (f"__dlq.errors.{name}", value) for name, value in values.items()
        ]
        producer.produce(letters, "letter", partition=0, headers=headers)
    assert producer.flush(60) == 0
    assert "no-such-topic" in refused("dlq", "replay", letters, "--execute", *at)
    listed = {row["topic"]: row for row in done("dlq", "list", "--format", "json", *at).json()}
    assert listed[letters]["not_replayed"] == 1


def test_replayed_records_are_handled_by_the_worker(dead: str, group_broker: Broker, at: tuple[str, str]) -> None:
    seen: list[bytes | None] = []
    lock = threading.Lock()

    def handle(record: Record) -> None:
        with lock:
            seen.append(record.value)

    done("dlq", "replay", dead, "--execute", *at)
    Worker(handle, topics=[dead], group=dead, bootstrap=group_broker.bootstrap).run(idle_stop_s=0.3)
    assert sorted(value or b"" for value in seen) == [b"1", b"4", b"6", b"9"]
