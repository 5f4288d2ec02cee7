"""Helpers for Produce and Fetch requests, which use names up to version 12 and ids from 13 on."""

from __future__ import annotations

from typing import Any

from tests.differential.session import REQUEST_MS_MAX, Answer, Session

FETCH_VERSIONS = range(4, 19)
PRODUCE_VERSIONS = range(3, 14)
NAMES_UNTIL = 12


def produce(
    s: Session,
    topic: str,
    records: bytes | None,
    *,
    version: int = 11,
    partition: int = 0,
    acks: int = -1,
    label: str = "",
    topic_id: str | None = None,
    transactional_id: str | None = None,
) -> Answer:
    """Produce the records of one partition and record the response."""
    data: dict[str, Any] = {"name": topic, "partition_data": [{"index": partition, "records": records}]}
    if version > NAMES_UNTIL:
        data["topic_id"] = topic_id or s.topic_id(topic)
    return s.call(
        "produce", version, label,
        acks=acks, timeout=REQUEST_MS_MAX, topic_data=[data], transactional_id=transactional_id,
    )  # fmt: skip


def fetch_partition(
    offset: int, *, index: int = 0, limit: int = 1 << 20, epoch: int = -1, **more: Any
) -> dict[str, Any]:
    return {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": limit,
        "current_leader_epoch": epoch,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        **more,
    }


def fetch(
    s: Session,
    topic: str,
    *partitions: dict[str, Any],
    version: int = 11,
    label: str = "",
    topic_id: str | None = None,
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: tuple[int, ...] = (),
    **more: Any,
) -> Answer:
    """Fetch from one topic and record the response."""
    by_id = version > NAMES_UNTIL
    who = {"topic": topic, "topic_id": (topic_id or s.topic_id(topic)) if by_id else None}
    return s.call(
        "fetch", version, label,
        replica_id=-1, max_wait=max_wait, min_bytes=min_bytes, max_bytes=max_bytes, isolation_level=isolation_level,
        session_id=session_id, session_epoch=session_epoch, rack_id="",
        topics=[{**who, "partitions": list(partitions)}] if partitions else [],
        forgotten_topics_data=[{**who, "partitions": list(forgotten)}] if forgotten else [],
        **more,
    )  # fmt: skip
