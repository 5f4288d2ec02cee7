"""Helpers for consumer group requests. Call `ready` first: Kafka creates its internal topic on the first request."""

from __future__ import annotations

import struct
from typing import Any

from tests.differential.session import Answer, Pending, Session

REBALANCING = "27 "
JOIN_VERSIONS = range(10)


def ready(s: Session, *groups: str) -> None:
    """Wait until the coordinators of the groups respond."""
    s.until(
        lambda answer: all(one["error_code"] == "0 none" for one in answer["coordinators"]),
        "find_coordinator", 4, "until there is one", key_type=0, coordinator_keys=list(groups),
    )  # fmt: skip
    for group in groups:
        s.until(
            lambda answer: answer["groups"][0]["error_code"] == "0 none",
            "offset_fetch", 9, "until the coordinator is there", groups=[{"group_id": group, "topics": []}],
        )  # fmt: skip


def subscription(*topics: str) -> bytes:
    """Return the subscription of a classic consumer: version 1, no user data, no owned partitions."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">ii", -1, 0)


def join_values(group: str, member: str = "", **more: Any) -> dict[str, Any]:
    protocols = more.pop("protocols", ("range",))
    metadata = more.pop("metadata", subscription("t"))
    return {
        "group_id": group,
        "member_id": member,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name in protocols],
        **more,
    }


def join(s: Session, group: str, member: str = "", *, version: int = 9, label: str = "", **more: Any) -> Answer:
    return s.call("join_group", version, label, **join_values(group, member, **more))


def begin_join(s: Session, group: str, member: str = "", *, version: int = 9, label: str = "", **more: Any) -> Pending:
    return s.begin("join_group", version, label, **join_values(group, member, **more))


def new_member(s: Session, group: str, **more: Any) -> str:
    """Request a member id, as every client does since KIP-394."""
    return str(join(s, group, label="for an id", **more)["member_id"])


def sync(
    s: Session, group: str, generation: int, member: str, shares: dict[str, bytes] | None = None, *,
    version: int = 5, label: str = "", **more: Any,
) -> Answer:  # fmt: skip
    return s.call("sync_group", version, label, **_sync_values(group, generation, member, shares or {}, more))


def begin_sync(s: Session, group: str, generation: int, member: str, **more: Any) -> Pending:
    return s.begin("sync_group", 5, "waiting", **_sync_values(group, generation, member, {}, more))


def _sync_values(
    group: str, generation: int, member: str, shares: dict[str, bytes], more: dict[str, Any]
) -> dict[str, Any]:
    assignments = [{"member_id": one, "assignment": share} for one, share in shares.items()]
    return {
        "group_id": group, "generation_id": generation, "member_id": member, "protocol_type": "consumer",
        "protocol_name": "range", "assignments": assignments, **more,
    }  # fmt: skip


def beat(
    s: Session, group: str, generation: int, member: str, *, version: int = 4, label: str = "", **more: Any
) -> Answer:
    return s.call(
        "heartbeat", version, label, group_id=group, generation_id=generation, member_id=member, **more
    )  # fmt: skip


def until_rebalancing(s: Session, group: str, generation: int, member: str) -> None:
    """Send heartbeats until the member must rejoin."""
    s.until(
        lambda answer: answer["error_code"].startswith(REBALANCING),
        "heartbeat", 4, "until it rebalances", group_id=group, generation_id=generation, member_id=member,
    )  # fmt: skip


def leave(s: Session, group: str, *members: str, version: int = 5, label: str = "", **more: Any) -> Answer:
    identities = [{"member_id": member, "group_instance_id": None} for member in members]
    values = {"members": identities, "member_id": members[0] if members else "", **more}
    return s.call("leave_group", version, label, group_id=group, **values)


def stable_member(s: Session, group: str, **more: Any) -> str:
    """Create a group with one member, stable in generation 1."""
    member = new_member(s, group, **more)
    join(s, group, member, label="with the id", **more)
    sync(s, group, 1, member, {member: b"all of it"})
    return member


def commit(
    s: Session, group: str, *partitions: tuple[int, int], topic: str, version: int = 9, generation: int = -1,
    member: str = "", label: str = "", topic_id: str | None = None, metadata: str | None = "a note", epoch: int = -1,
    **more: Any,
) -> Answer:  # fmt: skip
    """Commit offsets, given as pairs of partition and offset, of one topic."""
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": epoch,
         "committed_metadata": metadata}
        for index, offset in partitions
    ]  # fmt: skip
    if version >= 10 and topic_id is None:
        topic_id = s.topic_id(topic)
    return s.call(
        "offset_commit", version, label, group_id=group, generation_id=generation, member_id=member,
        generation_id_or_member_epoch=generation, retention_time=-1,
        topics=[{"name": topic, "topic_id": topic_id, "partitions": rows}], **more,
    )  # fmt: skip


def fetch_offsets(
    s: Session, group: str, topic: str | None, *partitions: int, version: int = 9, label: str = "",
    topic_id: str | None = None, member: str | None = None, epoch: int = -1, require_stable: bool = False,
) -> Answer:  # fmt: skip
    """Fetch the committed offsets of one topic, or of all with None."""
    if topic is not None and version >= 10 and topic_id is None:
        topic_id = s.topic_id(topic)
    row = {"name": topic, "topic_id": topic_id, "partition_indexes": list(partitions)}
    topics = None if topic is None else [row]
    return s.call(
        "offset_fetch", version, label, group_id=group, topics=topics, require_stable=require_stable,
        groups=[{"group_id": group, "topics": topics, "member_id": member, "member_epoch": epoch}],
    )  # fmt: skip
