"""Clients that begin large requests and never complete them, beside an ordinary producer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.process import faults, memory_mb

MIB = 1024 * 1024
# An eighth of the defaults, so that the attacks need an eighth of the memory.
SETTINGS = {"queued.max.request.bytes": str(64 * MIB), "socket.request.max.bytes": str(13 * MIB)}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(SETTINGS, data=tmp_path / "data") as started:
        yield started


class Attack:
    """Connections that announce frames, send part of them and then a few bytes now and then."""

    def __init__(self, port: int, *, count: int, size: int, sent: int, drip: int = 0) -> None:
        self._stopped = threading.Event()
        self._drip = drip
        self._stalled: set[int] = set()
        self._threads = [threading.Thread(target=self._upload, args=(port, size, sent)) for _ in range(count)]

    def __enter__(self) -> None:
        """Begin; return when each connection has sent its part, or as much of it as the broker reads."""
        for thread in self._threads:
            thread.start()
        eventually(lambda: len(self._stalled) == len(self._threads), what="the attack")

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)

    def _upload(self, port: int, size: int, sent: int) -> None:
        """Reconnect whenever the broker closes the connection."""
        while not self._stopped.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as line:
                line.sendall(struct.pack(">i", size))
                data = bytes(sent)
                position = 0
                while position < sent and not self._stopped.is_set():
                    try:
                        position += line.send(data[position : position + MIB])
                    except TimeoutError:
                        self._stalled.add(threading.get_ident())
                self._stalled.add(threading.get_ident())
                while not self._stopped.wait(0.2):
                    line.settimeout(0.001)
                    with contextlib.suppress(TimeoutError):
                        if line.recv(1) == b"":
                            break
                    if self._drip:
                        line.send(bytes(self._drip))


@pytest.mark.parametrize(
    ("count", "size", "sent", "drip"),
    [(8, 12 * MIB, 12 * MIB - 100_000, 0), (8, 12 * MIB, 11 * MIB, 400), (60, 2 * MIB, 2 * MIB - 10, 0)],
    ids=["eight stalled uploads", "eight uploads that drip", "sixty stalls of 2 MiB"],
)
def test_stalled_uploads_do_not_stop_produces(
    broker: BrokerProcess, count: int, size: int, sent: int, drip: int
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "delivery.timeout.ms": 20_000})
    producer.list_topics("t", timeout=30)
    delivered: list[object] = []
    with Attack(broker.port, count=count, size=size, sent=sent, drip=drip):
        for length in (900_000, 60_000) * 5:
            producer.produce("t", bytes(length), on_delivery=lambda error, _: delivered.append(error))
            assert producer.flush(30) == 0
        assert delivered == [None] * 10
        assert memory_mb(broker) < 250
    assert faults(broker) == []


def test_a_request_of_60_kb_in_pieces_is_answered_beside_stalled_uploads(broker: BrokerProcess) -> None:
    """Send a Metadata request that names many topics: it never fits in one read."""
    with Attack(broker.port, count=8, size=12 * MIB, sent=12 * MIB - 100_000):
        topics = [b"t" * 200] * 300
        body = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", len(topics))
        body += b"".join(struct.pack(">h", len(name)) + name for name in topics)
        frame = struct.pack(">i", len(body)) + body
        with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as line:
            for start in range(0, len(frame), 5000):
                line.sendall(frame[start : start + 5000])
                time.sleep(0.02)  # so that the pieces arrive one by one
            assert line.recv(4)
