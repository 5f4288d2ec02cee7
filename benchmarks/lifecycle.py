"""Startup, restart after kill -9 with a large log, memory when idle and with many connections."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from benchmarks.load import Load
from benchmarks.measures import Figures
from benchmarks.proc import memory_mb
from benchmarks.targets import Target

CONNECTIONS = 1000
RECORD_SIZE = 1000


def idle_memory(target: Target) -> Figures:
    return {"MB": memory_mb(target.server.pid)}


def memory_with_connections(target: Target, count: int = CONNECTIONS) -> Figures:
    """Return the resident memory with many connected clients that have sent one request each."""
    host, _, port = target.server.bootstrap.rpartition(":")
    question = bytes.fromhex("0000000a0012000000000001ffff")
    with ExitStack() as open_ones:
        clients = []
        for _ in range(count):
            client = open_ones.enter_context(socket.create_connection((host, int(port)), timeout=10))
            client.sendall(question)
            clients.append(client)
        for client in clients:
            client.recv(1 << 16)
        return {"MB": memory_mb(target.server.pid)}


def restart_after_kill(load: Load, target: Target, *, gigabytes: float) -> Figures:
    """Fill a log, kill the process, and measure the time until it responds again."""
    topic = target.new_topic()
    load.produce(target.server.bootstrap, topic, count=int(gigabytes * 1e9 / RECORD_SIZE), size=RECORD_SIZE)
    target.server.kill()
    seconds = target.server.start()
    target.delete_topic(topic)
    return {"s": seconds}
