"""Many clients in one attacking process: a thread for each, with summed counts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tests.abuse import wire
from tests.abuse.attack import Gate, Target

PATIENCE_S = 1.0
Work = Callable[[int, "Counter[str]"], None]


def in_threads(count: int, work: Work, gate: Gate) -> Counter[str]:
    """Run `work` with each number below `count`, starting together when the gate opens."""
    counters: list[Counter[str]] = [Counter() for _ in range(count)]

    def run(index: int) -> None:
        try:
            work(index, counters[index])
        except (ConnectionError, TimeoutError) as error:
            counters[index]["closed" if isinstance(error, ConnectionError) else "timeouts"] += 1

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    gate.open()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(gate.left_s + wire.ANSWER_S_MAX + 5)
    return sum(counters, Counter())


def repeat(target: Target, gate: Gate, frames: list[bytes], counts: Counter[str], *, pipelined: int = 1) -> None:
    """Send frames repeatedly on one connection, this many before their responses are read; reconnect if closed."""
    client: wire.Client | None = None
    turn = 0
    while not gate.is_over():
        volley = [frames[(turn + index) % len(frames)] for index in range(pipelined)]
        turn += pipelined
        try:
            client = client or wire.Client(target)
            # The time of the attack counts, not that of its last response.
            client.socket.settimeout(gate.left_s + PATIENCE_S)
            client.socket.sendall(b"".join(volley))
            for _ in volley:
                client.receive()
                counts["answered"] += 1
        except OSError as error:
            counts["timeouts" if isinstance(error, TimeoutError) else "closed"] += 1
            if client is not None:
                client.close()
            client = None
            time.sleep(0.01)
    if client is not None:
        client.close()


@contextlib.contextmanager
def connections(target: Target, count: int, *, port: int = 0) -> Iterator[list[socket.socket]]:
    """Return this many open connections, without those that the node rejects."""
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                held.append(wire.connect(target, timeout_s=5, port=port))
        yield held
    finally:
        for connection in held:
            connection.close()


def is_closed(connection: socket.socket) -> bool:
    """Return whether either end has closed the connection. Reads available data."""
    if connection.fileno() < 0:
        return True
    connection.setblocking(False)
    try:
        while data := connection.recv(1 << 16):
            assert data
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
