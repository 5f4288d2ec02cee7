"""Tests of the blocking connection against a server thread: pipelined responses and faults."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.connection import Connection, ConnectionLost
from penstock_client.protocol.wire import Writer


@contextmanager
def server(behave: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept one connection and serve it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                behave(accepted)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def reply(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def connect(port: int) -> Connection:
    return Connection("127.0.0.1", port, {}, timeout_s=5)


def test_responses_that_arrive_together_are_separated() -> None:
    def behave(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(b"".join(reply(number, struct.pack(">i", number * 10)) for number in (1, 2, 3)))
        # Read to the end: closing with unread bytes would reset the connection and discard the responses.
        while peer.recv(4096):
            pass

    with server(behave) as port:
        connection = connect(port)
        for _ in range(3):
            connection.send(26, 2, Writer().int32(0))
        assert connection.waiting_count == 3
        assert [connection.receive().int32() for _ in range(3)] == [10, 20, 30]
        connection.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "did not respond: the connection was closed"),
        (b"HTTP/1.1 400 Bad Request", "check the port"),
        (reply(99, b"\0\0\0\0"), "sent a response out of order"),
    ],
)
def test_an_invalid_response_is_reported(answer: bytes, expected: str) -> None:
    def behave(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(answer)

    with server(behave) as port:
        connection = connect(port)
        with pytest.raises(ConnectionLost, match=expected):
            connection.call(3, 12, Writer(compact=True))
        assert connection.fileno() < 0, "the connection is not closed"


def test_a_closed_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ConnectionLost, match=f"cannot connect to 127.0.0.1:{port}"):
        connect(port)


def test_a_pipeline_waits_for_a_broker_that_responds_late(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="Spark is not installed: pip install 'penstock[spark]'")
    from penstock_spark.pipelines import run

    brokers = b"\2" + struct.pack(">i2si", 1, b"\2h", 9092) + bytes(2)
    metadata = bytes(5) + brokers + bytes(1) + struct.pack(">i", 1) + b"\1\0"

    def behave(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(reply(1, metadata))
        while peer.recv(4096):
            pass

    # Any response is late.
    monkeypatch.setattr(run, "REACH_S", 0.0)
    with server(behave) as port:
        spec: Any = SimpleNamespace(cluster=lambda **limits: Cluster(f"127.0.0.1:{port}", **limits))
        run.reach(spec)
