"""Free loopback ports, and waiting for a broker on a port."""

from __future__ import annotations

import socket
import time
from collections import deque

from penstock.testing.ports import ReservedPort

HOST = "127.0.0.1"

# Old reservations are released: a process has a limit of open files.
_reserved: deque[ReservedPort] = deque(maxlen=100)


def free_ports(count: int) -> list[int]:
    """Return distinct free ports that no other test process gets meanwhile."""
    found = [ReservedPort(HOST) for _ in range(count)]
    _reserved.extend(found)
    return [each.number for each in found]


def adjacent_ports(count: int) -> list[int]:
    """Return adjacent free ports, for a command that takes only the first one."""
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
    """Return whether a Kafka broker responds to ApiVersions (version 0) on this port."""
    request = bytes.fromhex("0000000a0012000000000001ffff")
    try:
        with socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(request)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def wait_until_answered(port: int, *, seconds_max: float, pause: float = 0.02) -> float:
    """Wait until a broker responds on `port`; return how long that took."""
    started = time.monotonic()
    while not answers(port):
        if time.monotonic() - started > seconds_max:
            raise TimeoutError(f"no broker responded on port {port} within {seconds_max:.0f} s")
        time.sleep(pause)
    return time.monotonic() - started
