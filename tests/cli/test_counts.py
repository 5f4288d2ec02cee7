"""Counts of records and dead letters: transaction markers and aborted records are not counted."""

import pytest
from confluent_kafka import Producer

from tests.cli.conftest import Run

LETTER: list[tuple[str, str | bytes | None]] = [
    ("penstock.dlq.source.topic", b"orders"),
    ("penstock.dlq.source.partition", b"0"),
    ("penstock.dlq.source.offset", b"0"),
    ("penstock.dlq.attempts", b"1"),
    ("penstock.dlq.first.failure", b"1"),
    ("penstock.dlq.last.failure", b"1"),
]


@pytest.fixture
def transactional(bootstrap: str, run: Run, topic: str) -> str:
    """Provide a dead-letter topic with 12 letters in three transactions, and 4 letters of an aborted one."""
    name = f"{topic}.dlq"
    assert run("topic", "create", name).code == 0
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        for value in range(4):
            producer.produce(name, str(value), headers=LETTER)
        if number == 1:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    return name


def test_dlq_list_counts_letters_and_not_transaction_markers(run: Run, transactional: str) -> None:
    rows = {row["topic"]: row for row in run("dlq", "list", "--format", "json").json()}
    assert (rows[transactional]["letters"], rows[transactional]["not_replayed"]) == (12, 12)


def test_topic_describe_does_not_call_offsets_records(run: Run, transactional: str) -> None:
    (row,) = run("topic", "describe", transactional, "--format", "json").json()
    assert "records" not in row
    assert row["offsets"] == row["latest"] - row["earliest"] == 20


def test_dlq_show_does_not_list_live_records_as_dead_letters(run: Run, topic: str) -> None:
    assert run("produce", topic, given="1 pear\n").code == 0
    shown = run("dlq", "show", topic)
    assert (shown.code, shown.out) == (1, "")
    assert f"Topic '{topic}' has no dead-letter topic '{topic}.dlq'. Run 'penstock dlq list'" in shown.err
    assert run("dlq", "replay", topic, "--execute").code == 1


def test_dlq_show_reads_a_dead_letter_topic_with_another_suffix(run: Run, bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{topic}-dead", "1", headers=LETTER)
    assert producer.flush(60) == 0
    assert "orders-0@0" in run("dlq", "show", f"{topic}-dead").out
