"""Ports for brokers that stop and restart at the same address.

The operating system also gives the ports that it picks to outgoing connections. While the broker is down, a client
may get the port, even by connecting to itself, and then the broker cannot restart. So the port is chosen outside that
range and reserved: no other process that uses this module gets it.
"""

import errno
import os
import socket
import weakref
from contextlib import suppress
from pathlib import Path
from random import SystemRandom

_FIRST, _LAST = 10_000, 65_535
_TRIES = 1000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class ReservedPort:
    """A port of a host on which no process listens, reserved until `release` or until this object is collected."""

    def __init__(self, host: str, number: int = 0) -> None:
        """Reserve this port, or any if it is 0. Raises OSError if the port is in use."""
        self.number, reservation = _reserve_port(host, number) if number else _reserve(host)
        self._release = weakref.finalize(self, os.close, reservation) if reservation is not None else None

    def release(self) -> None:
        if self._release is not None:
            self._release()


def _reserve(host: str) -> tuple[int, int | None]:
    """Return a port, and the file descriptor that reserves it if the platform supports that."""
    candidates = _outside_ephemeral_range()
    random = SystemRandom()
    for _ in range(_TRIES if candidates else 0):
        with suppress(OSError):
            return _reserve_port(host, random.choice(candidates))
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1]), None


def _reserve_port(host: str, port: int) -> tuple[int, int | None]:
    reservation = _reservation(port)
    if reservation is not None and _is_free(host, port):
        return port, reservation
    if reservation is not None:
        os.close(reservation)
    raise OSError(errno.EADDRINUSE, f"port {port} is in use")


def _outside_ephemeral_range() -> range:
    """Return ports outside the ephemeral range; empty if the range is unknown."""
    try:
        low, high = map(int, _RANGE_FILE.read_text().split())
    except (OSError, ValueError):
        return range(0)
    below, above = range(_FIRST, low), range(max(high + 1, _FIRST), _LAST + 1)
    return max(below, above, key=len)


def _reservation(port: int) -> int | None:
    """Bind a name that only one process can have until it exits; return None if it is taken."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0penstock-port-{port}")
    except OSError:
        holder.close()
        return None
    return holder.detach()


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return True
    except OSError:
        return False
