"""InitProducerId, sequences, epochs, duplicates."""

from __future__ import annotations

from typing import Any

from tests.differential.batches import batch
from tests.differential.catalogue.requests import fetch, fetch_partition, produce
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session

SEQUENCE_MAX = 2**31 - 1


def new_producer(s: Session) -> int:
    """Retry while Kafka returns COORDINATOR_LOAD_IN_PROGRESS, before it has its first block of ids."""
    asked: dict[str, Any] = {
        "transactional_id": None,
        "transaction_timeout": 0,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    answer = s.until(lambda answer: answer["error_code"] == "0 none", "init_producer_id", 4, **asked)
    return int(answer["producer_id"])


@scenario
def producer_ids_in_every_version(s: Session) -> None:
    new_producer(s)
    for version in range(6):
        s.call(
            "init_producer_id", version, transactional_id=None, transaction_timeout=0, producer_id=-1, producer_epoch=-1
        )
    for label, who, epoch in (
        ("an epoch to bump", 5, 0),
        ("an id without an epoch", 5, -1),
        ("an epoch without an id", -1, 0),
    ):
        s.call("init_producer_id", 4, label, transactional_id=None, transaction_timeout=0, producer_id=who,
               producer_epoch=epoch)  # fmt: skip
    s.call("init_producer_id", 4, "an empty transactional id", transactional_id="", transaction_timeout=1000)


@scenario
def sequences(s: Session) -> None:
    topic = s.topic()
    who = new_producer(s)

    def send(label: str, sequence: int, *, count: int = 2, epoch: int = 0, producer: int = who) -> None:
        data = batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        produce(s, topic, data, label=label)

    send("first", 0)
    send("second", 2)
    send("second again", 2)
    send("first again", 0)
    send("a gap", 9)
    send("overlapping", 3)
    send("same start, more records", 2, count=3)
    for sequence in range(4, 16, 2):
        send(f"sequence {sequence}", sequence)
    send("older than the five remembered", 2)
    send("the oldest of the five", 6)
    send("a new epoch not at 0", 5, epoch=1)
    send("a new epoch at 0", 0, epoch=1)
    send("the old epoch", 16, epoch=0)
    send("an epoch skipped", 0, epoch=5)
    other = new_producer(s)
    send("another producer", 0, producer=other)
    send("a producer never seen, in the middle", 77, producer=123_456)
    send("a producer never seen, going on", 79, producer=123_456)
    fetch(s, topic, fetch_partition(0), label="all of it")


@scenario
def sequences_wrap(s: Session) -> None:
    topic = s.topic()
    who = new_producer(s)
    for label, sequence, count in (
        ("near the end", SEQUENCE_MAX - 2, 2),
        ("over the end", SEQUENCE_MAX, 3),
        ("after", 2, 1),
    ):
        data = batch(count, producer_id=who, producer_epoch=0, base_sequence=sequence)
        produce(s, topic, data, label=label)
        produce(s, topic, data, label=f"{label} again")


@scenario
def sequences_are_kept_per_partition(s: Session) -> None:
    topic = s.topic(partitions=2)
    who = new_producer(s)
    for partition in (0, 1):
        for sequence in (0, 1, 1):
            data = batch(1, producer_id=who, producer_epoch=0, base_sequence=sequence)
            produce(s, topic, data, partition=partition, label=f"{sequence} to {partition}")


@scenario
def duplicates_after_the_records_were_deleted(s: Session) -> None:
    topic = s.topic()
    who = new_producer(s)
    first = batch(2, producer_id=who, producer_epoch=0, base_sequence=0)
    produce(s, topic, first)
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
    s.call("delete_records", 2, topics=rows, timeout=REQUEST_MS_MAX)
    produce(s, topic, first, label="again")
    produce(s, topic, batch(1, producer_id=who, producer_epoch=0, base_sequence=2), label="going on")
