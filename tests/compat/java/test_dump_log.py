"""Tests that kafka-dump-log reads the broker's files: segments, indexes, the metadata log."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.conftest import BrokerUnderTest, MakeTopic
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("Mismatch", "isvalid: false", "not valid", "Found", "Corrupt")


@pytest.fixture
def data(broker_under_test: BrokerUnderTest) -> Path:
    if broker_under_test.data is None:
        pytest.skip("the data directory of the broker under test is unknown")
    return broker_under_test.data


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_segments_and_indexes_are_read_without_errors(
    tools: JavaTools, broker_under_test: BrokerUnderTest, data: Path, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(config={"segment.bytes": "1048576", "index.interval.bytes": "2000"})
    producer = Producer(
        {
            "bootstrap.servers": broker_under_test.bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 20,
            "linger.ms": 5,
        }
    )
    for number in range(6000 if codec == "none" else 600):
        producer.produce(topic, key=str(number), value=b"%d" % number * 80, headers=[("h", b"1")])
        producer.poll(0)
    assert producer.flush(60) == 0
    folder = data / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 1 or codec != "none"
    for segment in segments:
        dumped = tools.check(DUMP, "--deep-iteration", "--files", str(segment))
        assert "isvalid: true" in dumped
        assert f"compresscodec: {codec}" in dumped
        assert not any(complaint in dumped for complaint in COMPLAINTS)
        for index in (segment.with_suffix(".index"), segment.with_suffix(".timeindex")):
            verified = tools.check(DUMP, "--verify-index-only", "--files", str(index))
            assert not any(complaint in verified for complaint in COMPLAINTS), verified
    for rolled in segments[:-1]:  # Kafka's active index is preallocated and fails this check too
        for index in (rolled.with_suffix(".index"), rolled.with_suffix(".timeindex")):
            assert "passed sanity check" in tools.check(DUMP, "--index-sanity-check", "--files", str(index))
            assert "offset: " in tools.check(DUMP, "--files", str(index))
    for snapshot in folder.glob("*.snapshot"):
        assert "producerId" in tools.check(DUMP, "--files", str(snapshot))


def test_the_metadata_log_is_decoded(tools: JavaTools, data: Path, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"retention.ms": "123456"})
    (*_, newest) = sorted((data / "__cluster_metadata-0").glob("*.log"))
    dumped = tools.check(DUMP, "--cluster-metadata-decoder", "--files", str(newest))
    assert f'"name":"{topic}"' in dumped
    assert "REGISTER_BROKER_RECORD" in dumped
    assert '"value":"123456"' in dumped
    assert not any(complaint in dumped for complaint in COMPLAINTS)
