"""Connections: too many, too slow, too short, or with too much data in one read."""

from __future__ import annotations

import contextlib
import time
from collections import Counter

from tests.abuse import wire
from tests.abuse.attack import Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import connections, in_threads, is_closed

FAMILY = "connections"
SLOW = 500
FLOOD = 5_000
PIPELINED = 10_000
FRAME = wire.request_frame("metadata", 8, {"topics": None})
HTTP_HEAD = b"GET /health HTTP/1.1\r\nHost: node\r\nX: " + b"x" * 4_000


def _slow(frame: bytes, port: int, target: Target, gate: Gate) -> Counts:
    """Send a byte per second on each of many connections, and reopen those that the node closes."""
    counts: Counter[str] = Counter()
    gate.open()
    with connections(target, target.of(SLOW), port=port) as held:
        counts["opened"] += len(held)
        at = 0
        while not gate.is_over():
            for index, connection in enumerate(held):
                if gate.is_over():
                    break
                with contextlib.suppress(OSError):
                    connection.send(frame[at % len(frame) : at % len(frame) + 1])
                if is_closed(connection):
                    counts["closed"] += 1
                    connection.close()
                    with contextlib.suppress(OSError):
                        held[index] = wire.connect(target, timeout_s=1, port=port)
                        counts["opened"] += 1
            # The last byte of the frame is never sent.
            at = min(at + 1, len(frame) - 2)
            time.sleep(min(1.0, gate.left_s))
    return counts


def _slowloris(target: Target, gate: Gate) -> Counts:
    return _slow(FRAME, 0, target, gate)


def _slow_heads(target: Target, gate: Gate) -> Counts:
    return _slow(HTTP_HEAD, target.http_port, target, gate)


def _flood(target: Target, gate: Gate) -> Counts:
    gate.open()
    with connections(target, target.of(FLOOD)) as held:
        time.sleep(gate.left_s)
        return {"open": sum(not is_closed(connection) for connection in held)}


def _storm(target: Target, gate: Gate) -> Counts:
    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            with contextlib.suppress(OSError), wire.Client(target, timeout_s=5) as client:
                client.exchange(FRAME)
                counts["connected"] += 1

    return in_threads(8, work, gate)


def _pipelined(target: Target, gate: Gate) -> Counts:
    count = target.of(PIPELINED)
    frames = wire.request_frame("api_versions", 0, {}) * count

    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            with wire.Client(target) as client:
                client.socket.setblocking(True)
                sender = memoryview(frames)
                sent = answered = 0
                # Send everything that the node accepts before reading anything.
                client.socket.settimeout(0.2)
                while sent < len(sender):
                    try:
                        sent += client.socket.send(sender[sent:])
                    except TimeoutError:
                        client.socket.settimeout(wire.ANSWER_S_MAX)
                        client.receive()
                        answered += 1
                        client.socket.settimeout(0.2)
                client.socket.settimeout(wire.ANSWER_S_MAX)
                while answered < count:
                    client.receive()
                    answered += 1
                counts["answered"] += answered

    return in_threads(4, work, gate)


ATTACKS = (
    Attack(
        name="slowloris", family=FAMILY, run=_slowloris,
        what=f"{SLOW} clients send a byte of a request each second",
    ),
    Attack(
        name="slow-http-heads", family=FAMILY, run=_slow_heads, bounds=Bounds(health_ms=1_000.0),
        what=f"{SLOW} clients send a byte of an HTTP head each second; /health must answer",
    ),
    Attack(
        name="connection-flood", family=FAMILY, run=_flood, bounds=Bounds(recovery_s=20.0),
        what=f"{FLOOD:,} connections are opened and held",
    ),
    Attack(
        name="reconnect-storm", family=FAMILY, run=_storm,
        what="8 clients connect, ask for metadata and close, as fast as they can",
    ),
    Attack(
        name="pipelined", family=FAMILY, run=_pipelined,
        what=f"4 clients send {PIPELINED:,} requests before they read an answer, again and again",
    ),
)  # fmt: skip
