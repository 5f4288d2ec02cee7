"""Fetch: positions, limits, sessions, ids, epochs. And OffsetForLeaderEpoch."""

from __future__ import annotations

import time
from typing import Any

from tests.differential.batches import batch
from tests.differential.catalogue.metadata import NO_SUCH_ID
from tests.differential.catalogue.requests import FETCH_VERSIONS, fetch, fetch_partition, produce
from tests.differential.entities import request_frame
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session


def filled(s: Session, *, batches: int = 4, count: int = 5, partitions: int = 1) -> str:
    topic = s.topic(partitions=partitions)
    for index in range(partitions):
        for _ in range(batches):
            produce(s, topic, batch(count), partition=index, label="filling")
    return topic


@scenario
def fetch_in_every_version(s: Session) -> None:
    topic = filled(s)
    for version in FETCH_VERSIONS:
        for label, offset in (("all", 0), ("inside a batch", 7), ("at the end", 20), ("beyond", 21), ("negative", -1)):
            fetch(s, topic, fetch_partition(offset), version=version, label=label)
        fetch(s, topic, fetch_partition(0, index=4), version=version, label="an unknown partition")
        fetch(s, topic, fetch_partition(0, index=-1), version=version, label="a negative partition")
        if version <= 12:
            fetch(s, s.name("none"), fetch_partition(0), version=version, label="an unknown topic")
        else:
            fetch(s, topic, fetch_partition(0), version=version, topic_id=NO_SUCH_ID, label="an unknown id")
        fetch(s, topic, version=version, label="nothing")


@scenario
def fetch_limits(s: Session) -> None:
    topic = filled(s, partitions=3)
    size = len(batch(5))
    every = [fetch_partition(0, index=index) for index in range(3)]
    for limit in (0, 1, size - 1, size, size + 1, 2 * size, 2 * size + 10, -1):
        fetch(s, topic, fetch_partition(0, limit=limit), label=f"partition limit {limit - size:+d} from one batch")
        fetch(s, topic, fetch_partition(7, limit=limit), label=f"same, inside a batch, {limit - size:+d}")
        fetch(s, topic, *every, max_bytes=limit, label=f"total limit {limit - size:+d} from one batch")
        small = [fetch_partition(0, index=index, limit=limit) for index in range(3)]
        fetch(s, topic, *small, label=f"limits of three partitions {limit - size:+d}")
        fetch(s, topic, *small, version=4, label=f"the same {limit - size:+d}")


@scenario
def fetch_waits_for_enough_bytes_but_not_for_ever(s: Session) -> None:
    topic = filled(s, batches=1)
    fetch(s, topic, fetch_partition(5), max_wait=100, label="at the end")
    fetch(s, topic, fetch_partition(0), max_wait=100, min_bytes=1 << 20, label="not enough there")
    # This error ends the wait. Otherwise the response would arrive too late.
    fetch(s, topic, fetch_partition(9), max_wait=120_000, min_bytes=1 << 20, label="an offset out of range")
    started = time.monotonic()
    fetch(s, topic, fetch_partition(0), fetch_partition(5, index=9), max_wait=5000, min_bytes=1 << 20,
          label="an unknown partition beside a known one")  # fmt: skip
    s.note("an unknown partition ends the wait", time.monotonic() - started < 4.9)
    fetch(s, topic, max_wait=100, label="nothing to wait for")
    fetch(s, topic, fetch_partition(0), max_wait=-1, min_bytes=-1, label="negative wait and least")


@scenario
def fetch_from_a_log_that_begins_later(s: Session) -> None:
    topic = filled(s)
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 7}]}]
    s.call("delete_records", 2, topics=rows, timeout=REQUEST_MS_MAX)
    for version in (4, 5, 11, 13):
        for offset in (0, 6, 7, 8):
            fetch(s, topic, fetch_partition(offset), version=version, label=f"from {offset}")


@scenario
def fetch_with_leader_epochs(s: Session) -> None:
    topic = filled(s)
    for version in (9, 12, 13, 16, 17):
        for epoch in (-1, 0, 1, 5, -2):
            fetch(s, topic, fetch_partition(0, epoch=epoch), version=version, label=f"epoch {epoch}")
    for version in (12, 13, 16):
        for last in (0, 1, 3):
            fetch(
                s,
                topic,
                fetch_partition(10, epoch=0, last_fetched_epoch=last),
                version=version,
                label=f"last fetched {last}",
            )


@scenario
def read_committed_without_transactions(s: Session) -> None:
    topic = filled(s)
    for version in (4, 5, 11, 12, 13, 16):
        fetch(s, topic, fetch_partition(0), version=version, isolation_level=1, label="committed")
        fetch(s, topic, fetch_partition(20), version=version, isolation_level=1, label="committed, at the end")
    fetch(s, topic, fetch_partition(0), isolation_level=7, label="an isolation level of 7")


@scenario
def fetch_sessions(s: Session) -> None:
    topic = filled(s, partitions=3)
    for version in (7, 11, 12, 13, 16, 17):
        both = [fetch_partition(0), fetch_partition(20, index=1)]
        first = fetch(s, topic, *both, version=version, session_epoch=0, label="a full fetch opens a session")
        number = int(first.get("session_id", 0))
        s.note("a session was opened", number != 0)
        again: dict[str, Any] = {"version": version, "session_id": number}
        fetch(s, topic, **again, session_epoch=1, label="nothing new")
        fetch(s, topic, fetch_partition(20), **again, session_epoch=2, label="one moved to its end")
        fetch(s, topic, **again, session_epoch=3, label="nothing new at all")
        produce(s, topic, batch(1), partition=1, label="between")
        fetch(s, topic, **again, session_epoch=4, label="one has news")
        fetch(s, topic, fetch_partition(0, index=2), **again, session_epoch=5, label="a third is added")
        fetch(s, topic, **again, session_epoch=6, forgotten=(2, 1), label="two are forgotten")
        fetch(s, topic, **again, session_epoch=6, label="the same epoch twice")
        fetch(s, topic, **again, session_epoch=9, label="an epoch too far")
        fetch(s, topic, version=version, session_id=number + 1, session_epoch=1, label="an unknown session")
        fetch(s, topic, fetch_partition(0), **again, session_epoch=-1, label="closing it")
        fetch(s, topic, **again, session_epoch=7, label="after it was closed")
        fetch(s, topic, fetch_partition(0, index=8), version=version, session_epoch=0, label="opening on an error")
        produce(s, topic, batch(1), version=11, partition=0, label="so that the next round starts alike")


@scenario
def fetch_sessions_by_name_and_then_by_id(s: Session) -> None:
    topic = filled(s)
    for first, then in ((12, 13), (13, 12)):
        opened = fetch(s, topic, fetch_partition(0), version=first, session_epoch=0, label="opened")
        fetch(s, topic, version=then, session_id=int(opened.get("session_id", 0)), session_epoch=1, label="gone on")


@scenario
def fetch_the_same_partition_twice(s: Session) -> None:
    topic = filled(s)
    fetch(s, topic, fetch_partition(0), fetch_partition(5), version=11)
    fetch(s, topic, fetch_partition(0), fetch_partition(5), version=13)


@scenario
def fetch_as_a_follower_that_is_none(s: Session) -> None:
    topic = filled(s)
    for replica in (0, 1, 7, -2, -3):
        rows = [{"topic": topic, "partitions": [fetch_partition(0)]}]
        s.call("fetch", 11, f"as replica {replica}", replica_id=replica, max_wait=0, min_bytes=1, max_bytes=1 << 20,
               session_epoch=-1, topics=rows)  # fmt: skip


@scenario
def offsets_for_leader_epochs(s: Session) -> None:
    topic = filled(s)
    for version in (2, 3, 4):
        for current, epoch in ((-1, 0), (-1, 1), (-1, -1), (-1, -5), (0, 0), (5, 0), (0, 99)):
            partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            s.call("offset_for_leader_epoch", version, f"current {current}, asked {epoch}", replica_id=-1,
                   topics=[{"topic": topic, "partitions": [partition]}])  # fmt: skip
        unknown = [{"topic": s.name("none"), "partitions": [{"partition": 0, "leader_epoch": 0}]},
                   {"topic": topic, "partitions": [{"partition": 9, "leader_epoch": 0}]}]  # fmt: skip
        s.call("offset_for_leader_epoch", version, "unknown", replica_id=-1, topics=unknown)


@scenario
def answers_come_in_the_order_of_the_questions(s: Session) -> None:
    topic = filled(s)
    slow = {"replica_id": -1, "max_wait": 200, "min_bytes": 1 << 20, "max_bytes": 1 << 20, "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [fetch_partition(20)]}]}  # fmt: skip
    frames = request_frame("fetch", 11, slow, correlation_id=101)
    frames += request_frame("metadata", 9, {"topics": []}, correlation_id=-102)
    frames += request_frame("api_versions", 0, {}, correlation_id=101)
    got = [s.exchange(frames), s.exchange(b""), s.exchange(b"")]
    s.note(
        "correlation ids", [one if isinstance(one, str) else int.from_bytes(one[:4], "big", signed=True) for one in got]
    )
