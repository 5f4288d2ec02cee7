"""Test of repeated kill -9 under a produce load: acknowledged records survive.

`make crash ROUNDS=n` runs more rounds.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess

FEW_KILLS = 5
KILLS = int(os.environ.get("PENSTOCK_KILL_ROUNDS", "30")) // 2
PARTITIONS = 3
TOPIC = "killed"


class Load:
    """A producer that survives the broker, and its acknowledged records."""

    def __init__(self, bootstrap: str, codec: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 50,
                "compression.type": codec,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
            }
        )
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refused: list[str] = []

    def send_until(self, acknowledged: int) -> None:
        """Send until this many more records are acknowledged; many others are then in flight."""
        goal = len(self.acknowledged) + acknowledged
        while len(self.acknowledged) < goal and not self.refused:
            if self.sent - len(self.acknowledged) < 2000:
                self._send()
            self._producer.poll(0 if self.sent % 20 else 0.0005)

    def _send(self) -> None:
        value = b"%d" % self.sent
        self._producer.produce(TOPIC, value, partition=self.sent % PARTITIONS, on_delivery=self._delivered)
        self.sent += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()

    def finish(self) -> None:
        assert self._producer.flush(60) == 0


def read_back(bootstrap: str) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    ends = {
        index: consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=60)[1]
        for index in range(PARTITIONS)
    }
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    seen: dict[tuple[int, int], bytes] = {}
    while any(position < ends[index] for index, position in positions(consumer).items()):
        for message in consumer.consume(10_000, timeout=0.2):
            assert message.error() is None, message.error()
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None and offset is not None and value is not None
            seen[partition, offset] = value
    consumer.close()
    return seen


def positions(consumer: Consumer) -> dict[int, int]:
    wanted = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    return {position.partition: max(position.offset, 0) for position in consumer.position(wanted)}


@pytest.mark.timeout(600 + 10 * KILLS)
@pytest.mark.parametrize(
    ("codec", "kills"),
    [("none", FEW_KILLS), *(pytest.param(codec, KILLS, marks=pytest.mark.slow) for codec in ("none", "lz4"))],
)
def test_acknowledged_records_survive_kills_without_duplicates(tmp_path: Path, codec: str, kills: int) -> None:
    random = Random(f"{codec} {kills}")
    broker = BrokerProcess({"log.segment.bytes": str(2**20)}, data=tmp_path / "data")
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
        load = Load(broker.bootstrap, codec)
        for _ in range(kills):
            load.send_until(acknowledged=random.randint(500, 3000))
            broker.kill()
            broker.start()
        load.finish()
        assert load.refused == []
        assert len(load.acknowledged) == load.sent
        seen = read_back(broker.bootstrap)
        assert {position: seen.get(position) for position in load.acknowledged} == load.acknowledged
        twice = [value for value, count in Counter(seen.values()).items() if count > 1]
        assert twice == [], f"{len(twice)} values are duplicated"
        for index in range(PARTITIONS):
            values = [int(value) for (partition, _), value in sorted(seen.items()) if partition == index]
            assert values == sorted(values), "the order of one producer is kept"
        assert broker.stop() == 0
