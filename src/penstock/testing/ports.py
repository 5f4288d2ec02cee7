"""Ports for brokers that stop and come back at the same address.

A port that the operating system picks is one that it also gives to clients that connect. While the broker is down, a
client may get it as its own, even by connecting to itself, and then the broker cannot come back. So the port is taken
from outside that range, and reserved: no other process that asks here is given it.
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
    """A port of a host that nothing listens on, reserved until `release`, or until this object is gone."""

    def __init__(self, host: str, number: int = 0) -> None:
        """Reserve this port, or any if it is 0. Raises OSError if the port is taken."""
        self.number, reservation = _reserve_port(host, number) if number else _reserve(host)
        self._release = weakref.finalize(self, os.close, reservation) if reservation is not None else None

    def release(self) -> None:
        if self._release is not None:
            self._release()


def _reserve(host: str) -> tuple[int, int | None]:
    """Return a port, and the file descriptor that reserves it where there is such a thing."""
    candidates = _outside_of_clients()
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
    raise OSError(errno.EADDRINUSE, f"port {port} is taken")


def _outside_of_clients() -> range:
    """Return ports that the operating system gives to nobody by itself; none where it does not say which."""
    try:
        low, high = map(int, _RANGE_FILE.read_text().split())
    except (OSError, ValueError):
        return range(0)
    below, above = range(_FIRST, low), range(max(high + 1, _FIRST), _LAST + 1)
    return max(below, above, key=len)


def _reservation(port: int) -> int | None:
    """Hold a name that only one process can have, and that is free again when the process ends; None if it is taken."""
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
