"""Free loopback ports, and waiting for one to answer."""

from __future__ import annotations

import socket
import time
from collections import deque

from penstock.testing.ports import ReservedPort

HOST = "127.0.0.1"

# Those of long ago are given back: a process may not have many files open.
_reserved: deque[ReservedPort] = deque(maxlen=100)


def free_ports(count: int) -> list[int]:
    """Return distinct ports that nothing listens on, and that no other process of the tests is given meanwhile."""
    found = [ReservedPort(HOST) for _ in range(count)]
    _reserved.extend(found)
    return [each.number for each in found]


def adjacent_ports(count: int) -> list[int]:
    """Return free ports that follow each other, for a command that is given the first one only."""
    for _ in range(1000):
        first = ReservedPort(HOST)
        try:
            found = [first, *(ReservedPort(HOST, first.number + distance) for distance in range(1, count))]
        except OSError:
            continue
        _reserved.extend(found)
        return [each.number for each in found]
    raise AssertionError(f"no {count} adjacent ports are free")


def answers(port: int, *, host: str = HOST) -> bool:
    """Say whether a Kafka broker answers ApiVersions (version 0) on this port."""
    request = bytes.fromhex("0000000a0012000000000001ffff")
    try:
        with socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(request)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def wait_until_answered(port: int, *, seconds_max: float, pause: float = 0.02) -> float:
    """Wait until a broker answers on `port`; return how long that took."""
    started = time.monotonic()
    while not answers(port):
        if time.monotonic() - started > seconds_max:
            raise TimeoutError(f"nothing answered on port {port} within {seconds_max:.0f} s")
        time.sleep(pause)
    return time.monotonic() - started
