"""Test that kafka-dump-log reads compacted logs: sparse and empty batches, delete horizons, markers, indexes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.support.eventually import eventually
from tests.support.folder_size import sizes
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("Mismatch", "isvalid: false", "not valid", "Found", "Corrupt")
TOPIC = "table"


def write(bootstrap: str, codec: str) -> None:
    """Write records of a transactional producer, then others, then tombstones."""
    random = Random(codec)
    teller = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"teller-{codec}"})
    teller.init_transactions(60)
    for number in range(6):
        teller.begin_transaction()
        teller.produce(TOPIC, key=f"t{number % 2}", value=random.randbytes(300))
        teller.flush(60)
        if number % 2:
            teller.abort_transaction(60)
        else:
            teller.commit_transaction(60)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 20, "linger.ms": 5}
    )
    for number in range(5000):
        # Hexadecimal, because librdkafka sends a batch as it is if compressing does not make it smaller.
        producer.produce(TOPIC, key=f"k{number % 700}", value=random.randbytes(250).hex(), headers=[("h", b"1")])
        producer.poll(0)
    for number in range(50):
        producer.produce(TOPIC, key=f"k{number}", value=None)
    for number in range(3000):
        producer.produce(TOPIC, key=f"x{number % 100}", value=random.randbytes(500))
        producer.poll(0)
    assert producer.flush(60) == 0


def wait_until_compacted(data: Path) -> None:
    def is_compacted() -> bool:
        found = sizes(data / f"{TOPIC}-0")
        return found is not None and 0 < sum(found[:-1]) < 700_000

    eventually(is_compacted)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_compacted_segments_and_indexes_are_read_without_errors(tools: JavaTools, tmp_path: Path, codec: str) -> None:
    with Broker({"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}, data=tmp_path) as broker:
        config = {"cleanup.policy": "compact", "segment.bytes": "1048576", "index.interval.bytes": "2000"}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(60)
        write(broker.bootstrap, codec)
        wait_until_compacted(tmp_path)
    segments = sorted((tmp_path / f"{TOPIC}-0").glob("*.log"))
    everything = ""
    for segment in segments:
        dumped = tools.check(DUMP, "--deep-iteration", "--files", str(segment))
        assert not any(complaint in dumped for complaint in COMPLAINTS)
        everything += dumped
        for index in (segment.with_suffix(".index"), segment.with_suffix(".timeindex")):
            verified = tools.check(DUMP, "--verify-index-only", "--files", str(index))
            assert not any(complaint in verified for complaint in COMPLAINTS), verified
    for closed in segments[:-1]:
        for index in (closed.with_suffix(".index"), closed.with_suffix(".timeindex")):
            checked = tools.check(DUMP, "--index-sanity-check", "--files", str(index))
            # A segment of a few batches has no index entry.
            assert "passed sanity check" in checked or "is empty" in checked
    assert f"compresscodec: {codec}" in everything
    assert "count: 0" in everything
    assert "endTxnMarker: ABORT" in everything
    assert "deleteHorizonMs: OptionalLong[" in everything
    assert "isvalid: true" in everything
