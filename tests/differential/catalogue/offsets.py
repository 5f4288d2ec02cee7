"""ListOffsets."""

from __future__ import annotations

from typing import Any

from tests.differential.batches import START, Batch, batch, record
from tests.differential.catalogue.requests import produce
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session

VERSIONS = range(1, 12)


def asked(topic: str, timestamp: int, *, index: int = 0, epoch: int = -1) -> dict[str, Any]:
    row = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
    return {"name": topic, "partitions": [row]}


def look_up(s: Session, version: int, label: str, *topics: dict[str, Any], isolation_level: int = 0) -> None:
    s.call(
        "list_offsets",
        version,
        label,
        replica_id=-1,
        isolation_level=isolation_level,
        timeout=REQUEST_MS_MAX,
        topics=list(topics),
    )


@scenario
def offsets_in_every_version(s: Session) -> None:
    topic = s.topic()
    empty = s.topic("empty")
    for _ in range(3):
        produce(s, topic, batch(4))
    for version in VERSIONS:
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, START - 1, START, START + 1, START + 3000, START + 3001):
            look_up(s, version, f"of {timestamp - START if timestamp > 0 else timestamp}", asked(topic, timestamp))
            look_up(
                s, version, f"of {timestamp - START if timestamp > 0 else timestamp}, empty", asked(empty, timestamp)
            )


@scenario
def offsets_of_times_out_of_order(s: Session) -> None:
    topic = s.topic()
    mixed = (
        record(0, time_delta=0),
        record(1, time_delta=9000),
        record(2, time_delta=3000),
        record(3, time_delta=9000),
    )
    produce(s, topic, Batch(records=mixed, max_timestamp=START + 9000).encode())
    produce(s, topic, Batch(base_timestamp=START + 5000).encode())
    produce(s, topic, Batch(base_timestamp=START + 9000).encode())
    for delta in (0, 1, 3000, 5000, 8999, 9000, 9001):
        look_up(s, 7, f"of start + {delta}", asked(topic, START + delta))
    look_up(s, 7, "of the largest", asked(topic, -3))


@scenario
def offsets_of_records_without_a_time(s: Session) -> None:
    topic = s.topic()
    produce(s, topic, Batch(base_timestamp=-1).encode())
    for timestamp in (-3, 0, 1):
        look_up(s, 7, f"of {timestamp}", asked(topic, timestamp))


@scenario
def offsets_of_what_is_not_there(s: Session) -> None:
    topic = s.topic()
    for version in VERSIONS:
        rows = (asked(s.name("none"), -1), asked(topic, -1, index=9), asked(topic, -1, index=-1))
        for row in rows:
            look_up(s, version, "unknown", row)
    look_up(s, 7, "nothing")
    look_up(s, 7, "twice", asked(topic, -1), asked(topic, -1))


@scenario
def offsets_with_epochs_and_isolation(s: Session) -> None:
    topic = s.topic()
    produce(s, topic, batch(4))
    for version in (4, 7, 11):
        for epoch in (0, 1, 7):
            look_up(s, version, f"epoch {epoch}", asked(topic, -1, epoch=epoch))
        look_up(s, version, "committed", asked(topic, -1), isolation_level=1)
        look_up(s, version, "committed, by time", asked(topic, START + 1000), isolation_level=1)


@scenario
def offsets_after_records_were_deleted(s: Session) -> None:
    topic = s.topic()
    produce(s, topic, batch(10))
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 4}]}]
    s.call("delete_records", 2, topics=rows, timeout=REQUEST_MS_MAX)
    for timestamp in (-1, -2, -3, -4, START, START + 2000, START + 5000):
        look_up(s, 8, f"of {timestamp - START if timestamp > 0 else timestamp}", asked(topic, timestamp))


@scenario
def offsets_for_a_replica(s: Session) -> None:
    """Any client may send a replica id: it changes nothing."""
    topic = s.topic()
    produce(s, topic, batch(4))
    for replica_id in (-2, -1, 0, 1, 2, 99):
        for timestamp in (-1, -2, START):
            label = f"as {replica_id} of {timestamp}"
            s.call("list_offsets", 7, label, replica_id=replica_id, topics=[asked(topic, timestamp)])
