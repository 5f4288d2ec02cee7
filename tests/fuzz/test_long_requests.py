"""Small requests that cause much work: they must not delay others.

Before such work was done in slices, each of these blocked the event loop until it was answered. On a busy machine
everything takes longer, so the limits are fractions of the time until the answer.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.list_offsets.v5 import request as list_offsets
from kio.schema.produce.v9 import request as produce

from penstock.testing.process import BrokerProcess
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.codecs import ZSTD
from penstock.wire.frame import parse_response_header, request_head
from penstock.wire.records import Record, encode_batch
from tests.support.ports import free_ports
from tests.support.process import faults, memory_mb

HELD_MS_MAX = 500.0
WAIT_S_MAX = 1.5
PARTITIONS = 60
BOMB_SIZE = 60_000_000
HOUR_MS = 3_600_000


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api_key: int, version: int, entity: Any) -> Any:
        body = codec.write_request(api_key, version, entity)
        self._socket.sendall(request_head(api_key, version, 7, "test", len(body)) + body)
        answer = self._read(struct.unpack(">i", self._read(4))[0])
        _, position = parse_response_header(api_key, version, memoryview(answer))
        return codec.read_response(api_key, version, answer[position:])

    def produce(self, topic: str, batches: dict[int, bytes]) -> list[int]:
        request: Any = produce.ProduceRequest
        topics: Any = produce.TopicProduceData
        partitions: Any = produce.PartitionProduceData
        data = tuple(partitions(index=index, records=batch) for index, batch in batches.items())
        body = request(
            transactional_id=None,
            acks=1,
            timeout=timedelta(seconds=30),
            topic_data=(topics(name=topic, partition_data=data),),
        )
        answer = self.ask(ApiKey.PRODUCE, 9, body)
        return [int(each.error_code) for each in answer.responses[0].partition_responses]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the connection was closed"
            data += more
        return data


class Innocent(threading.Thread):
    """Writes small batches and records how long each took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.longest = 0.0
        self.count = 0
        self.over = threading.Event()

    def run(self) -> None:
        with Client(self._port) as client:
            batch = encode_batch([Record(timestamp=1, key=b"k", value=b"v" * 100)])
            while not self.over.is_set():
                began = time.monotonic()
                assert client.produce("innocent", {0: batch}) == [0]
                self.longest = max(self.longest, time.monotonic() - began)
                self.count += 1
                time.sleep(0.01)


class World:
    def __init__(self, broker: BrokerProcess, metrics_port: int) -> None:
        self.broker = broker
        self._metrics_port = metrics_port

    def held_ms(self, api: str) -> float:
        """Return how long a request of an API has blocked the event loop, according to the watchdog."""
        url = f"http://127.0.0.1:{self._metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        found = re.search(rf'penstock_request_held_max_ms{{request="{api}"}} ([0-9.e+-]+)', text)
        return 0.0 if found is None else float(found.group(1))

    def attack(self, api: str, attack: Callable[[Client], None]) -> None:
        innocent = Innocent(self.broker.port)
        innocent.start()
        began = time.monotonic()
        try:
            with Client(self.broker.port) as client:
                attack(client)
        finally:
            took_s = time.monotonic() - began
            innocent.over.set()
            innocent.join(60)
        assert innocent.count > 0
        assert innocent.longest < max(WAIT_S_MAX, took_s / 2)
        assert self.held_ms(api) < max(HELD_MS_MAX, took_s * 1000 / 4)
        assert memory_mb(self.broker) < 300
        assert faults(self.broker) == []


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from confluent_kafka.admin import AdminClient, NewTopic

    (port,) = free_ports(1)
    settings = {"metrics.listener": f"http://127.0.0.1:{port}"}
    data: Path = tmp_path_factory.mktemp("broker") / "data"
    with BrokerProcess(settings, data=data) as broker:
        topics = [
            NewTopic("innocent", 1),
            NewTopic("plain", PARTITIONS),
            NewTopic("table", PARTITIONS, config={"cleanup.policy": "compact"}),
        ]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for created in admin.create_topics(topics).values():
            created.result()
        yield World(broker, port)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def bomb(timestamp: int) -> bytes:
    """Return a batch of two kilobytes that decompresses to sixty megabytes."""
    return encode_batch([Record(timestamp=timestamp, key=b"k", value=bytes(BOMB_SIZE))], codec=ZSTD)


def test_decompression_bombs(world: World) -> None:
    batch = bomb(now_ms() + 2 * HOUR_MS)
    refused = [32] * PARTITIONS  # INVALID_TIMESTAMP
    world.attack(
        "Produce", lambda client: _expect(client.produce("plain", dict.fromkeys(range(PARTITIONS), batch)), refused)
    )


@pytest.mark.slow
def test_batches_of_a_compacted_topic(world: World) -> None:
    batch = bomb(now_ms())
    written = [0] * PARTITIONS
    world.attack(
        "Produce", lambda client: _expect(client.produce("table", dict.fromkeys(range(PARTITIONS), batch)), written)
    )


@pytest.mark.slow
def test_a_batch_with_very_many_records(world: World) -> None:
    batch = encode_batch([Record(timestamp=now_ms(), key=b"", value=None)] * 600_000, codec=ZSTD)
    world.attack("Produce", lambda client: _expect(client.produce("table", {0: batch}), [0]))


@pytest.mark.slow
def test_lookups_of_timestamps_in_such_batches(world: World) -> None:
    now = now_ms()
    # Only the last record is late enough, so that the whole batch must be read.
    records = [Record(timestamp=now, value=bytes(BOMB_SIZE)), Record(timestamp=now + 1000, value=b"v")]
    batch = encode_batch(records, codec=ZSTD)
    with Client(world.broker.port) as client:
        assert set(client.produce("plain", dict.fromkeys(range(PARTITIONS), batch))) == {0}
    request: Any = list_offsets.ListOffsetsRequest
    topic: Any = list_offsets.ListOffsetsTopic
    partition: Any = list_offsets.ListOffsetsPartition
    body = request(
        replica_id=-1,
        isolation_level=0,
        topics=(
            topic(
                name="plain",
                partitions=tuple(
                    partition(partition_index=index, current_leader_epoch=-1, timestamp=now + 500)
                    for index in range(PARTITIONS)
                ),
            ),
        ),
    )

    def ask(client: Client) -> None:
        found = client.ask(ApiKey.LIST_OFFSETS, 5, body).topics[0].partitions
        assert {(int(each.error_code), int(each.timestamp)) for each in found} == {(0, now + 1000)}

    world.attack("ListOffsets", ask)


@pytest.mark.slow
def test_metadata_of_very_many_topics_that_do_not_exist(world: World) -> None:
    from kio.schema.metadata.v12 import request as metadata

    request: Any = metadata.MetadataRequest
    topic: Any = metadata.MetadataRequestTopic
    body = request(
        topics=tuple(topic(topic_id=None, name=f"missing/{number}") for number in range(50_000)),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )

    def ask(client: Client) -> None:
        assert len(client.ask(ApiKey.METADATA, 12, body).topics) == 50_000

    world.attack("Metadata", ask)


def _expect(found: list[int], expected: list[int]) -> None:
    assert found == expected
