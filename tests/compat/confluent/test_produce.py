"""Tests that a consumer reads what librdkafka's producer sends."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from tests.compat.confluent.conftest import Read, Send
from tests.compat.conftest import MakeTopic

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def messages(count: int, *, size: int = 60) -> list[dict[str, Any]]:
    return [{"key": f"key-{n}", "value": f"value-{n}-".encode() + b"x" * size} for n in range(count)]


def pairs(sent: list[dict[str, Any]]) -> list[tuple[bytes, bytes]]:
    return [(one["key"].encode(), one["value"]) for one in sent]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_with_every_acks_arrives_in_order(
    make_topic: MakeTopic, send: Send, read: Read, codec: str, acks: str
) -> None:
    topic = make_topic()
    sent = messages(200)
    send(topic, sent, acks=acks, compression_type=codec)
    got = read(topic, 200)
    assert [(one.key(), one.value()) for one in got] == pairs(sent)
    assert [one.offset() for one in got] == list(range(200))


@pytest.mark.parametrize("codec", CODECS)
def test_an_idempotent_producer_writes_each_record_once(
    make_topic: MakeTopic, send: Send, read: Read, codec: str
) -> None:
    topic = make_topic()
    sent = messages(300)
    reports = send(topic, sent, enable_idempotence=True, compression_type=codec, batch_num_messages=20)
    assert {report.offset() for report in reports} == set(range(300))
    assert [one.value() for one in read(topic, 300)] == [one["value"] for one in sent]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_its_own_codec_recompresses(make_topic: MakeTopic, send: Send, read: Read, codec: str) -> None:
    topic = make_topic(config={"compression.type": codec})
    sent = messages(50)
    send(topic, sent, compression_type="lz4" if codec != "lz4" else "gzip")
    assert [(one.key(), one.value()) for one in read(topic, 50)] == pairs(sent)


def test_delivery_reports_have_the_offset_at_which_the_record_is_read(
    make_topic: MakeTopic, send: Send, read: Read
) -> None:
    topic = make_topic(partitions=3)
    reports = send(topic, [{"value": str(n), "partition": n % 3} for n in range(30)], acks="all")
    for partition in range(3):
        expected = {report.offset(): report.value() for report in reports if report.partition() == partition}
        got = {one.offset(): one.value() for one in read(topic, 10, partition=partition)}
        assert got == expected


def test_headers_keep_order_duplicates_null_and_empty_values(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic()
    headers = [("a", b"1"), ("b", None), ("a", b"2"), ("", b""), ("snow ☃", bytes(range(256)))]
    send(topic, [{"value": b"with", "headers": headers}, {"value": b"without"}])
    with_headers, without = read(topic, 2)
    assert with_headers.headers() == headers
    assert without.headers() is None


def test_null_and_empty_keys_and_values_stay_distinct(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic()
    cases: list[tuple[bytes | None, bytes | None]] = [(None, None), (b"", b""), (None, b"v"), (b"k", None)]
    send(topic, [{"key": key, "value": value} for key, value in cases])
    assert [(one.key(), one.value()) for one in read(topic, 4)] == cases


def test_create_time_is_the_producers_time(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic()
    times = [1_600_000_000_000, 1_500_000_000_123, 1_700_000_000_999]
    send(topic, [{"value": b"v", "timestamp": at} for at in times])
    assert [one.timestamp() for one in read(topic, 3)] == [(TIMESTAMP_CREATE_TIME, at) for at in times]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_is_the_brokers_time(make_topic: MakeTopic, send: Send, read: Read, codec: str) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = time.time() * 1000 - 2000
    reports = send(topic, [{"value": b"v", "timestamp": 1_000_000_000_000}] * 3, compression_type=codec)
    got = [one.timestamp() for one in read(topic, 3)]
    assert all(kind == TIMESTAMP_LOG_APPEND_TIME and before < at < before + 20_000 for kind, at in got)
    assert [report.timestamp()[1] for report in reports] == [at for _, at in got]


def test_a_megabyte_message_needs_a_topic_that_allows_it(make_topic: MakeTopic, send: Send, read: Read) -> None:
    value = bytes(range(256)) * 8192  # 2 MiB
    generous = make_topic(config={"max.message.bytes": "4000000"})
    send(generous, [{"value": value}], message_max_bytes=4_000_000)
    (got,) = read(generous, 1)
    assert got.value() == value

    usual = make_topic()
    with pytest.raises(KafkaException) as refused:
        send(usual, [{"value": value}], message_max_bytes=4_000_000)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_keyless_record_is_rejected_by_a_compacted_topic(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    with pytest.raises(KafkaException) as refused:
        send(topic, [{"value": b"no key"}])
    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD
    send(topic, [{"key": b"k", "value": b"v"}])
    assert read(topic, 1)[0].value() == b"v"


def test_the_first_produce_creates_the_topic(bootstrap: str, send: Send, read: Read) -> None:
    topic = f"made-by-first-produce-{time.time_ns()}"
    send(topic, [{"value": b"first"}])
    assert read(topic, 1)[0].value() == b"first"


def test_acks_0_right_after_creation_loses_nothing(make_topic: MakeTopic, send: Send, read: Read) -> None:
    topic = make_topic()
    send(topic, messages(20), acks="0")
    assert len(read(topic, 20)) == 20
