"""Consumer groups under load: heartbeats of many members, a rebalance of a large group, commits.

Members use raw sockets, a hundred groups at a time, and then send frames encoded once, so that the broker is measured
and not the client. Every member has its own connection, as real ones do.
"""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.load import Load, LoadFailed
from benchmarks.proc import cpu_seconds
from benchmarks.targets import Target
from tests.differential.entities import read_response, request_frame
from tests.differential.session import Session

GROUPS, MEMBERS_EACH = 1000, 10
GROUPS_AT_ONCE = 100
SESSION_MS = 1_800_000
CLASSIC_BEAT_S, CONSUMER_BEAT_S = 3.0, 5.0
"""The heartbeat interval of members: heartbeat.interval.ms, and the one that the broker sets."""
BEAT_ROUNDS = 3
"""Creating the members takes far longer than a round, so a row repeats its rounds internally."""
LARGE = 100
COMMITTED = 12_345
INITIAL_DELAY_MS = 500
"""The group.initial.rebalance.delay.ms of the brokers under test."""

Figures = dict[str, float]
_runs = itertools.count(1)


def _session(target: Target) -> Session:
    host, _, port = target.server.bootstrap.rpartition(":")
    return Session("bench", host, int(port))


def _prefix() -> str:
    return f"bench-{os.getpid()}-{next(_runs)}"


def wait_for_coordinator(target: Target, *groups: str) -> None:
    """Make the broker create its internal topic."""
    session = _session(target)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        session.ask("find_coordinator", 4, key_type=0, coordinator_keys=list(groups))
        answer = session.ask("offset_fetch", 8, groups=[{"group_id": group, "topics": []} for group in groups])
        if isinstance(answer, dict) and all(row["error_code"] == "0 none" for row in answer["groups"]):
            session.hang_up()
            return
        time.sleep(0.1)
    raise LoadFailed("the coordinator never responded")


def _good(api: str, version: int, frame: bytes | str) -> dict[str, Any]:
    """Return the response, which must not contain an error."""
    answer = frame if isinstance(frame, str) else read_response(api, version, frame)
    if isinstance(answer, str) or answer["error_code"] != "0 none":
        raise LoadFailed(f"{api}: {answer}")
    return answer


def _subscription(topic: str) -> bytes:
    return struct.pack(f">hih{len(topic)}sii", 1, 1, len(topic), topic.encode(), -1, 0)


class _Classic:
    """One member of the classic protocol, with its own connection."""

    def __init__(self, target: Target, group: str, topic: str) -> None:
        self._session, self.group, self._topic = _session(target), group, topic
        self.member, self.generation = "", -1
        self.members: list[str] = []

    def ask_to_join(self) -> None:
        protocols = [{"name": "range", "metadata": _subscription(self._topic)}]
        values = {"group_id": self.group, "member_id": self.member, "session_timeout": SESSION_MS,
                  "rebalance_timeout": 60_000, "protocol_type": "consumer", "protocols": protocols}  # fmt: skip
        self._session.send(request_frame("join_group", 3, values))

    def joined(self) -> None:
        answer = self._answer("join_group", 3)
        self.member, self.generation = answer["member_id"], answer["generation_id"]
        self.members = [row["member_id"] for row in answer["members"]]

    def ask_to_sync(self) -> None:
        shares = [{"member_id": one, "assignment": b"\0\0\0\0\0\0\0\0\0\0"} for one in self.members]
        values = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member,
                  "assignments": shares}  # fmt: skip
        self._session.send(request_frame("sync_group", 3, values))

    def synced(self) -> None:
        self._answer("sync_group", 3)

    def must_join_again(self) -> bool:
        answer = self._session.ask("heartbeat", 4, **self._identity())
        return isinstance(answer, dict) and answer["error_code"].startswith("27 ")

    def heartbeat(self) -> bytes:
        return request_frame("heartbeat", 4, self._identity())

    def close(self) -> None:
        self._session.hang_up()

    def _identity(self) -> dict[str, Any]:
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self.member}

    def _answer(self, api: str, version: int) -> dict[str, Any]:
        return _good(api, version, self._session.receive(seconds_max=60))


def _settle(members: Sequence[_Classic]) -> None:
    """Complete one rebalance of all members, which have already sent JoinGroup."""
    for one in members:
        one.joined()
    for one in members:
        one.ask_to_sync()
    for one in members:
        one.synced()


def classic_heartbeats(load: Load, target: Target, scale: float) -> Figures:
    """Return the fraction of one core that the heartbeats of all members use."""
    topic, prefix, frames = target.new_topic(), _prefix(), []
    wait_for_coordinator(target, *(f"{prefix}-{number}" for number in range(GROUPS)))
    for first in range(0, GROUPS, GROUPS_AT_ONCE):
        groups = [f"{prefix}-{number}" for number in range(first, first + GROUPS_AT_ONCE)]
        members = [_Classic(target, group, topic) for group in groups for _ in range(MEMBERS_EACH)]
        for one in members:
            one.ask_to_join()
        _settle(members)
        frames += [one.heartbeat() for one in members]
        for one in members:
            one.close()
    # After the size: correlation id, tags, throttle time.
    return _share_of_a_core(load, target, frames, period=CLASSIC_BEAT_S, scale=scale, error_at=4 + 1 + 4)


def consumer_heartbeats(load: Load, target: Target, scale: float) -> Figures:
    """Return the same for the consumer protocol."""
    topic, prefix = target.new_topic(), _prefix()
    groups = [f"{prefix}-{number}" for number in range(GROUPS)]
    wait_for_coordinator(target, *groups)
    session = _session(target)
    members = [{"group_id": group, "member_id": f"{group}-member-{number}", "member_epoch": 0, "topic_partitions": [],
                "rebalance_timeout": 60_000, "subscribed_topic_names": [topic]}
               for number in range(MEMBERS_EACH) for group in groups]  # fmt: skip
    changed = True
    while changed:
        changed = False
        for chunk in range(0, len(members), GROUPS_AT_ONCE):
            some = members[chunk : chunk + GROUPS_AT_ONCE]
            session.send(b"".join(request_frame("consumer_group_heartbeat", 1, one) for one in some))
            for one in some:
                answer = _good("consumer_group_heartbeat", 1, session.receive())
                given = answer["assignment"] and answer["assignment"]["topic_partitions"]
                changed = changed or answer["member_epoch"] != one["member_epoch"] or bool(given)
                one |= {"member_epoch": answer["member_epoch"], "rebalance_timeout": -1, "subscribed_topic_names": None}
                one["topic_partitions"] = given if given is not None else one["topic_partitions"]
    session.hang_up()
    for one in members:
        one["topic_partitions"] = None
    frames = [request_frame("consumer_group_heartbeat", 1, one) for one in members]
    return _share_of_a_core(load, target, frames, period=CONSUMER_BEAT_S, scale=scale, error_at=4 + 1 + 4)


def _share_of_a_core(
    load: Load, target: Target, frames: Iterable[bytes], *, period: float, scale: float, error_at: int
) -> Figures:
    seconds = period * max(2, round(6 * scale))
    prepared, best = list(frames), Figures()
    for _ in range(BEAT_ROUNDS):
        with load.paced(target.server.bootstrap, prepared, period=period, seconds=seconds, error_at=error_at) as run:
            before, started = cpu_seconds(target.server.pid), time.monotonic()
            numbers = run()
            used = (cpu_seconds(target.server.pid) - before) / (time.monotonic() - started)
        rate = numbers["requests"] / numbers["seconds"]
        if not best or used * 100 < best["% of a core"]:
            best = {
                "% of a core": used * 100,
                "requests/s": rate,
                "CPU us/request": used / rate * 1e6,
                "p50_us": numbers["p50_us"],
                "p99_us": numbers["p99_us"],
            }
    return best


def rebalance(load: Load, target: Target, scale: float) -> Figures:
    """Measure a rebalance of a hundred members: from a new JoinGroup until the last member has its assignment."""
    topic, group = target.new_topic(), _prefix()
    wait_for_coordinator(target, group)
    members = [_Classic(target, group, topic) for _ in range(LARGE)]
    for one in members:
        one.ask_to_join()
    started = time.monotonic()
    _settle(members)
    first = time.monotonic() - started - INITIAL_DELAY_MS / 1000
    late = _Classic(target, group, topic)
    started = time.monotonic()
    late.ask_to_join()
    waiting = list(members)
    while waiting:
        began_again = [one for one in waiting if one.must_join_again()]
        for one in began_again:
            one.ask_to_join()
        waiting = [one for one in waiting if one not in began_again]
    _settle([*members, late])
    seconds = time.monotonic() - started
    for one in (*members, late):
        one.close()
    return {"s": seconds, "s beyond the delay": first}


def commits(group_count: int, *, depth: int) -> Callable[[Load, Target, float], Figures]:
    """Measure concurrent commits of several groups, each on its own connection with this many in flight.

    One consumer, one at a time: a loop of `commit()`. Many groups: the load of a busy broker; each group maps to one of
    the 50 partitions of the internal topic, so fewer commits share a batch or a sync. Several in flight: a client that
    commits without waiting; Kafka completes one request of a connection before it starts the next.
    """

    def run(load: Load, target: Target, scale: float) -> Figures:
        topic, prefix = target.new_topic(), _prefix()
        groups = [f"{prefix}-{number}" for number in range(group_count)]
        wait_for_coordinator(target, *groups)
        if target.name == "Penstock":
            _make_durable(target)
        row = {"partition_index": 0, "committed_offset": COMMITTED, "committed_leader_epoch": -1,
               "committed_metadata": ""}  # fmt: skip
        common = {"generation_id": -1, "generation_id_or_member_epoch": -1, "member_id": "",
                  "topics": [{"name": topic, "partitions": [row]}]}  # fmt: skip
        frames = b"".join(request_frame("offset_commit", 8, {"group_id": group, **common}) for group in groups)
        before = cpu_seconds(target.server.pid)
        count = int(100_000 * scale)
        numbers = load.requests(target.server.bootstrap, frames, connections=group_count, depth=depth, count=count)
        used = cpu_seconds(target.server.pid) - before
        _check_committed(target, groups, topic)
        target.delete_topic(topic)
        return {
            "commits/s": numbers["requests"] / numbers["seconds"],
            "CPU us/request": used / numbers["requests"] * 1e6,
            "p50_us": numbers["p50_us"],
            "p99_us": numbers["p99_us"],
        }

    return run


def _check_committed(target: Target, groups: Sequence[str], topic: str) -> None:
    """Check that the commits succeeded, because an error is faster than a commit."""
    session = _session(target)
    asked = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]} for group in groups]
    answer = session.ask("offset_fetch", 8, groups=asked)
    session.hang_up()
    found = answer if isinstance(answer, str) else [
        part["committed_offset"] for group in answer["groups"] for one in group["topics"] for part in one["partitions"]
    ]  # fmt: skip
    if found != [COMMITTED] * len(groups):
        raise LoadFailed(f"not every group has its offset: {found}")


def _make_durable(target: Target) -> None:
    """Set the flush mode of the internal topic to that of the target."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in target.topic_config
        if name == "flush.mode"
    ]
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": target.server.bootstrap, "log_level": 3})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(timeout=15)
