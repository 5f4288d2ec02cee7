"""Free ports for the listeners that a command starts."""

import contextlib
import socket

from penstock.cli.errors import CommandError


def choose_port(usual: int, *, owner: str, option: str) -> int:
    """Return the usual port of a listener if it is free, and any free one otherwise."""
    for port in (usual, 0):
        with contextlib.suppress(OSError):
            return try_port(port)
    raise CommandError(f"No port is free for {owner}. Pass one with {option}.")


def try_port(port: int) -> int:
    """Bind a port for a moment; return it, or the one that the system has picked for 0. Raises OSError."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(("127.0.0.1", port))
        return int(tried.getsockname()[1])
