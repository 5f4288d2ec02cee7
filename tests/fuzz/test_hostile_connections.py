"""Clients that announce large frames, send slowly, never read or open many connections."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.open_files import need_open_files
from tests.support.ports import answers
from tests.support.process import faults, memory_mb


@pytest.fixture
def many_open_files() -> None:
    need_open_files(1500)


@pytest.fixture
def broker(tmp_path: Path):  # type: ignore[no-untyped-def]
    with BrokerProcess(data=tmp_path / "data") as started:
        yield started


def test_a_thousand_connections_that_each_announce_99_mb_cost_less_than_100_mb(
    many_open_files: None, broker: BrokerProcess
) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(1000):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=60))
            connection.sendall(struct.pack(">i", 99_000_000) + b"0123456789")
        # By the time it has answered so often, it has also read the bytes before.
        for _ in range(10):
            eventually(lambda: answers(broker.port))
            assert memory_mb(broker) < 100
    assert faults(broker) == []


def test_a_client_that_never_reads_its_replies_stops_only_itself(broker: BrokerProcess) -> None:
    metadata = bytes.fromhex("000000120003000000000001000466757a7a00000000")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        with contextlib.suppress(OSError):
            for _ in range(200_000):
                connection.sendall(metadata)
        assert answers(broker.port)
        assert memory_mb(broker) < 150
    assert faults(broker) == []


def test_connections_of_other_protocols_are_closed(broker: BrokerProcess) -> None:
    for greeting in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"\x00" * 64):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as connection:
            connection.sendall(greeting)
            assert connection.recv(100) == b""
    assert answers(broker.port)
    assert faults(broker) == []


def test_the_broker_still_answers_during_a_flood_of_connections(broker: BrokerProcess) -> None:
    for _ in range(3000):
        socket.create_connection(("127.0.0.1", broker.port), timeout=60).close()
    assert answers(broker.port)
    assert faults(broker) == []


def test_connections_over_the_limit_are_closed_immediately(tmp_path: Path) -> None:
    few = BrokerProcess({"max.connections.per.ip": "10"}, data=tmp_path / "few")
    with few as broker, contextlib.ExitStack() as held:
        connections = [
            held.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=60)) for _ in range(15)
        ]
        for connection in connections[10:]:
            assert connection.recv(1) == b""
        connections[0].close()
        eventually(lambda: answers(broker.port))


def test_acks_0_records_sent_right_after_a_topic_was_created_are_kept(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": 0, "linger.ms": 0})
    producer.list_topics(timeout=60)
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    for round_ in range(20):
        topic = f"fresh-{round_}"
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        for index in range(100):
            producer.produce(topic, b"%d" % index)
        assert producer.flush(60) == 0
        eventually(
            lambda topic=topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1] == 100  # type: ignore[misc]
        )
    consumer.close()


def test_members_with_much_metadata_cost_little_memory(broker: BrokerProcess) -> None:
    """Use JoinGroup version 0, which lets a member join without a second request."""
    # FindCoordinator creates the topic of all groups.
    _ask(broker, struct.pack(">hhih", 10, 0, 7, -1) + struct.pack(">h", 5) + b"first")
    eventually(lambda: _join(broker, b"first", b"x") == 0)
    before = memory_mb(broker)
    for number in range(40):
        with pytest.raises((AssertionError, ConnectionError)):
            _join(broker, b"g%d" % number, bytes(10_000_000))
    assert _join(broker, b"large", bytes(3_000_000)) == -1
    assert memory_mb(broker) < before + 150
    assert _join(broker, b"honest", b"x" * 1000) == 0
    assert faults(broker) == []


def _join(broker: BrokerProcess, group: bytes, metadata: bytes) -> int:
    body = struct.pack(">hhih", 11, 0, 7, -1)
    body += struct.pack(">h", len(group)) + group + struct.pack(">i", 30_000) + struct.pack(">h", 0)
    body += struct.pack(">h", 8) + b"consumer" + struct.pack(">ih", 1, 5) + b"range"
    body += struct.pack(">i", len(metadata)) + metadata
    code: int = struct.unpack_from(">h", _ask(broker, body), 8)[0]
    return code


def _ask(broker: BrokerProcess, body: bytes) -> bytes:
    """Return the beginning of the response: size, correlation id, error code."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as line:
        line.sendall(struct.pack(">i", len(body)) + body)
        answer = b""
        while len(answer) < 10:
            more = line.recv(10 - len(answer))
            assert more, "the broker has closed the connection"
            answer += more
    return answer
