"""Requests that never end and responses that are never read: a node holds memory for inactive clients."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections import Counter
from functools import partial
from random import Random

from tests.abuse import records, wire
from tests.abuse.attack import MB, Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import connections, in_threads, is_closed

FAMILY = "memory of requests"
PIECE = bytes(256 * 1024)
# The start of a Produce request; it is followed by zeros, and never completed.
HEAD = struct.pack(">hhih", 0, 7, 1, -1)
FRAME_TIMEOUT_S = 30.0
"""socket.frame.timeout.ms by default, enforced every five seconds."""
CLOSED_AFTER_S = FRAME_TIMEOUT_S + 8.0
UNREAD_CLIENTS = 60
UNREAD = "unread"
BOUNDS = Bounds(memory_mb=700.0, memory_after_mb=200.0, large_max_ms=5_000.0)


def _stall(uploads: int, announced: int, sent_max: int, every_s: float, target: Target, gate: Gate) -> Counts:
    """Upload all but the end, then stop (or send a byte now and then), and check which connections are closed."""
    uploads = target.of(uploads)

    def upload(_: int, counts: Counter[str]) -> None:
        with wire.connect(target) as connection:
            connection.sendall(struct.pack(">i", announced) + HEAD)
            connection.setblocking(False)
            left = sent_max - len(HEAD)
            stalled_at = time.monotonic()
            while not gate.is_over() and not is_closed(connection):
                sent = _send(connection, left)
                left -= sent
                if sent:
                    stalled_at = time.monotonic()
                if not left and every_s:
                    with contextlib.suppress(OSError):
                        connection.send(b"\0")
                time.sleep(0.001 if sent else every_s or 0.2)
            counts["MB sent"] += (sent_max - left) // MB
            counts["closed"] += not gate.is_over()
            counts["overdue"] += gate.is_over() and time.monotonic() - stalled_at > CLOSED_AFTER_S

    counts = in_threads(uploads, upload, gate)
    # Apache Kafka has no such limit.
    if target.http_port:
        overdue = counts["overdue"]
        gate.require(not overdue, f"{overdue} of {uploads} uploads are open that stalled {CLOSED_AFTER_S:.0f} s ago")
    return counts


def _send(connection: socket.socket, size: int) -> int:
    """Send as much as the node accepts."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < size:
            sent += connection.send(memoryview(PIECE)[: size - sent])
    return sent


def _prepare_unread(target: Target) -> None:
    wire.create_topics(target, [UNREAD])
    with wire.Client(target) as client:
        for _ in range(20):
            client.exchange(wire.produce([(UNREAD, 0, records.plain(900_000, Random(1)))]))


def _unread(target: Target, gate: Gate) -> Counts:
    """Request megabytes and lists, and read nothing."""
    frames = wire.fetch(UNREAD, 0, 0, size_max=16_000_000) + wire.request_frame("api_versions", 0, {}) * 50
    counts: Counter[str] = Counter()
    gate.open()
    with connections(target, target.of(UNREAD_CLIENTS)) as held:
        for connection in held:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
        while not gate.is_over():
            for connection in held:
                with contextlib.suppress(OSError):
                    counts["bytes sent"] += connection.send(frames)
            time.sleep(0.05)
    return counts


def _attack(name: str, what: str, uploads: int, announced: int, sent: int, every_s: float = 0.0) -> Attack:
    return Attack(
        name=name, family=FAMILY, what=what, run=partial(_stall, uploads, announced, sent, every_s), bounds=BOUNDS,
        seconds_min=CLOSED_AFTER_S + 12.0, compared=True,
    )  # fmt: skip


ATTACKS = (
    _attack("stalled-uploads", "8 clients stop after 99 of 100 MB", 8, 100 * MB, 99 * MB),
    _attack("trickling-uploads", "8 clients send 99 of 100 MB, then a byte every 100 ms", 8, 100 * MB, 99 * MB, 0.1),
    _attack("many-stalls", "500 clients stop after 1.9 of 2 MB", 500, 2 * MB, 1_900_000),
    Attack(
        name="unread-replies", family=FAMILY, run=_unread, prepare=_prepare_unread,
        what=f"{UNREAD_CLIENTS} clients fetch 16 MB over and over and read nothing",
    ),
)  # fmt: skip
