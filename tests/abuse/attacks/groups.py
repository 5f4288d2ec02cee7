"""Groups and transactions: large members, many groups, many members, expensive patterns, many ids."""

from __future__ import annotations

import contextlib
import re
import struct
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.abuse import wire
from tests.abuse.attack import MB, Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import connections, in_threads, repeat
from tests.differential.entities import API_NAMES

FAMILY = "groups"
LARGE_JOINS, LARGE_JOIN_SIZE = 60, 10 * MB
GROUPS, MEMBERS = 50_000, 10_000
TRANSACTIONAL_IDS = 20_000
NAMES = 50_000
PIPELINED = 100
JOINING = 2
"""How many clients join the members of a consumer group."""
PLACE = "name-#######"
PATTERN_TOPICS = 500
TOPIC = "committed"
COMMITTED_PARTITIONS = 500
JOIN, OFFSET_COMMIT, HEARTBEAT = 5, 7, 1


def _join(group: str, metadata: bytes) -> bytes:
    values = {
        "group_id": group, "session_timeout": 30_000, "rebalance_timeout": 30_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": metadata}],
    }  # fmt: skip
    # Versions before 4 do not require a second request with the member id.
    return wire.request_frame("join_group", 3, values)


def _stream(target: Target, gate: Gate, frames: Iterator[bytes], counts: Counter[str]) -> None:
    """Send all frames, a hundred at a time before their responses are read."""
    with wire.Client(target) as client:
        while not gate.is_over():
            volley = [frame for _, frame in zip(range(PIPELINED), frames, strict=False)]
            if not volley:
                return
            client.socket.sendall(b"".join(volley))
            answers = [client.receive() for _ in volley]
            counts["answered"] += len(answers)
            counts[f"first error {_error_of(volley[0], answers[0])}"] += 1


def _error_of(frame: bytes, answer: bytes) -> str:
    """Return the first error code in a response."""
    api, version = struct.unpack_from(">hh", frame, 4)
    found = re.search(r"'error_code': '(\d+ \w+)'", str(wire.read_response(API_NAMES[api], version, answer)))
    return found[1] if found else "none"


def _numbered(frame: bytes, number: int) -> bytes:
    """Return a frame with another name for `PLACE`: encoding each by its schema would be slower than the node."""
    return frame.replace(PLACE.encode(), b"name-%07d" % number)


def _streams(frame: bytes, total: int, target: Target, gate: Gate) -> Counts:
    """Split the numbers below `total` between two clients; each number is put into the frame."""
    total = target.of(total)

    def work(index: int, counts: Counter[str]) -> None:
        _stream(target, gate, (_numbered(frame, number) for number in range(index, total, 2)), counts)

    return in_threads(2, work, gate)


def _large_joins(target: Target, gate: Gate) -> Counts:
    """Join one group per member, and stay."""
    frame = _join(PLACE, bytes(LARGE_JOIN_SIZE))

    def work(index: int, counts: Counter[str]) -> None:
        with wire.Client(target) as client:
            client.socket.sendall(_numbered(frame, index))
            counts["sent"] += 1
            answer = client.receive()
            counts[f"error {_error_of(frame, answer)}"] += 1
            # The member exists until its session expires, regardless of its connection.
            time.sleep(gate.left_s)

    return in_threads(target.of(LARGE_JOINS), work, gate)


def _many_groups(target: Target, gate: Gate) -> Counts:
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    values = {"group_id": PLACE, "topics": [{"name": TOPIC, "partitions": [row]}]}
    return _streams(wire.request_frame("offset_commit", OFFSET_COMMIT, values), GROUPS, target, gate)


def _classic_members(target: Target, gate: Gate) -> Counts:
    """Join one classic group; a few members per connection, since a join waits for the others."""
    frame = _join("crowd", b"m" * 100)
    counts: Counter[str] = Counter()
    gate.open()
    with connections(target, target.of(MEMBERS) // 100) as held:
        for connection in held:
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                connection.sendall(frame * 100)
                counts["sent"] += 100
        for connection in held:
            connection.settimeout(max(0.1, min(1.0, gate.left_s)))
            with contextlib.suppress(OSError):
                while not gate.is_over() and connection.recv(1 << 16):
                    counts["pieces of answers"] += 1
    return counts


def _heartbeat(group: str, member: str, **more: Any) -> bytes:
    values = {
        "group_id": group, "member_id": member, "member_epoch": 0, "rebalance_timeout": 30_000, "topic_partitions": [],
    }  # fmt: skip
    return wire.request_frame("consumer_group_heartbeat", HEARTBEAT, values | more)


def _consumer_members(target: Target, gate: Gate) -> Counts:
    """Let two clients join members, while another one describes the group."""
    frame = _heartbeat("crowd", PLACE, subscribed_topic_names=[TOPIC])
    describe = wire.request_frame("consumer_group_describe", 0, {"group_ids": ["crowd"]})
    total = target.of(MEMBERS)

    def work(index: int, counts: Counter[str]) -> None:
        if index == JOINING:
            repeat(target, gate, [describe], counts)
        else:
            _stream(target, gate, (_numbered(frame, number) for number in range(index, total, JOINING)), counts)

    return in_threads(JOINING + 1, work, gate)


def _prepare_patterns(target: Target) -> None:
    wire.start_coordinators(target)
    wire.create_topics(target, [f"{'a' * 200}-{number}" for number in range(target.of(PATTERN_TOPICS))])


def _patterns(target: Target, gate: Gate) -> Counts:
    """Use a different pattern each time, so that nothing compiled before helps."""
    shapes = (
        "(a+)+{0}$", "(a|aa)+{0}$", "(.*a){{50}}{0}", "(a{{0,100}}){{0,10}}{0}", "((a*)*)*{0}b", "(?i)(a?){{200}}{0}",
        "((((a{{1,10}}){{1,10}}){{1,10}}){{1,3}}){0}", "[^b]*{0}" * 500, "(" + "a|" * 8_000 + "b{0})+",
    )  # fmt: skip
    numbers = count()

    def frames() -> Iterator[bytes]:
        for number in numbers:
            regex = shapes[number % len(shapes)].format(number)
            yield _heartbeat(f"pattern-{number % 50}", f"member-{number % 200}", subscribed_topic_regex=regex)

    return in_threads(1, lambda _, counts: _stream(target, gate, frames(), counts), gate)


def _prepare_committed(target: Target) -> None:
    wire.start_coordinators(target)
    wire.create_topics(target, [TOPIC], partitions=target.of(COMMITTED_PARTITIONS))


def _large_commits(target: Target, gate: Gate) -> Counts:
    """Commit metadata of the maximum size, and longer, for every partition of a topic, in many groups."""

    def frame(number: int) -> bytes:
        note = "n" * (4_096 if number % 2 else 32_767)
        rows = [
            {"partition_index": index, "committed_offset": 1, "committed_metadata": note}
            for index in range(target.of(COMMITTED_PARTITIONS))
        ]
        topics = [{"name": TOPIC, "partitions": rows}]
        return wire.request_frame("offset_commit", OFFSET_COMMIT, {"group_id": f"notes-{number}", "topics": topics})

    frames = [frame(number) for number in range(20)]
    return in_threads(1, lambda _, counts: repeat(target, gate, frames, counts), gate)


def _long_lists(target: Target, gate: Gate) -> Counts:
    """Send lists of unknown groups to every API that takes one."""
    names = [f"nobody-{number}" for number in range(target.of(NAMES))]
    frames = [
        wire.request_frame("describe_groups", 4, {"groups": names}),
        wire.request_frame("consumer_group_describe", 0, {"group_ids": names}),
        wire.request_frame("offset_fetch", 8, {"groups": [{"group_id": name, "topics": None} for name in names]}),
        wire.request_frame("find_coordinator", 4, {"coordinator_keys": names}),
        wire.request_frame("delete_groups", 1, {"groups_names": names}),
        wire.request_frame("describe_transactions", 0, {"transactional_ids": names}),
    ]
    return in_threads(1, lambda _, counts: repeat(target, gate, frames, counts), gate)


def _transactional_ids(target: Target, gate: Gate) -> Counts:
    values = {"transactional_id": PLACE, "transaction_timeout": 60_000}
    return _streams(wire.request_frame("init_producer_id", 1, values), TRANSACTIONAL_IDS, target, gate)


# Committed offsets are state that the client asked the node to keep.
KEPT = Bounds(memory_mb=300.0, memory_after_mb=300.0, files_kept=60)

ATTACKS = (
    Attack(
        name="large-joins", family=FAMILY, run=_large_joins, prepare=wire.start_coordinators,
        bounds=Bounds(memory_mb=700.0, files_kept=60),
        what=f"{LARGE_JOINS} JoinGroups with {LARGE_JOIN_SIZE // MB} MB of metadata each",
    ),
    Attack(
        name="many-groups", family=FAMILY, run=_many_groups, prepare=_prepare_committed, bounds=KEPT,
        what=f"offsets committed by {GROUPS:,} groups",
    ),
    Attack(
        name="classic-members", family=FAMILY, run=_classic_members, prepare=wire.start_coordinators, bounds=KEPT,
        what=f"{MEMBERS:,} members join one classic group",
    ),
    Attack(
        name="consumer-members", family=FAMILY, run=_consumer_members, prepare=_prepare_committed, bounds=KEPT,
        what=f"{MEMBERS:,} members join one consumer group, which another client describes",
    ),
    Attack(
        name="expensive-patterns", family=FAMILY, run=_patterns, prepare=_prepare_patterns, bounds=KEPT,
        what="subscriptions by patterns that backtrack or unfold, over topics with long names",
    ),
    Attack(
        name="large-commits", family=FAMILY, run=_large_commits, prepare=_prepare_committed, bounds=KEPT,
        what=f"commits for {COMMITTED_PARTITIONS} partitions with notes of 4 KB and of 32 KB",
    ),
    Attack(
        name="long-lists", family=FAMILY, run=_long_lists, prepare=wire.start_coordinators, bounds=KEPT,
        what=f"DescribeGroups, OffsetFetch and their like for {NAMES:,} names",
    ),
    Attack(
        name="transactional-ids", family=FAMILY, run=_transactional_ids, prepare=wire.start_coordinators, bounds=KEPT,
        what=f"InitProducerId for {TRANSACTIONAL_IDS:,} transactional ids",
    ),
)  # fmt: skip
