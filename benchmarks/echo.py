"""The minimum depth-1 latency: a TCP echo on the loopback interface in the same run."""

from __future__ import annotations

import os
import socket

from benchmarks.load import Load


def echo_p50_us(load: Load, *, count: int = 20_000) -> float:
    """Return the median round trip of a small frame to an echo server."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        _echo(listener)
        os._exit(0)
    port = listener.getsockname()[1]
    listener.close()
    try:
        frame = (100).to_bytes(4, "big") + bytes(100)
        return float(load.requests(f"127.0.0.1:{port}", frame, connections=1, depth=1, count=count)["p50_us"])
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def _echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(4096):
        connection.sendall(data)
