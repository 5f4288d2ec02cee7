"""Tests of the completion of a pipeline's sources."""

from __future__ import annotations

import json

from penstock_spark.pipelines.sources import Completion, Replay, sink_for_jvm
from penstock_spark.pipelines.store import offsets_in


def test_a_source_gets_the_broker_and_the_whole_history_by_default() -> None:
    bare = Completion("b:1", is_jvm=False).complete({"subscribe": "orders"}, streaming=True)
    assert bare == ("penstock", {"kafka.bootstrap.servers": "b:1", "startingOffsets": "earliest"})
    said = {"subscribe": "orders", "Kafka.Bootstrap.Servers": "c:2", "startingTimestamp": "5"}
    assert Completion("b:1", is_jvm=False).complete(said, streaming=True) == ("penstock", {})


def test_secrets_are_sent_only_to_this_cluster() -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.password": "p"}
    completion = Completion("b:1", is_jvm=False, client=settings)
    _, added = completion.complete({"subscribe": "o", "kafka.sasl.password": "own"}, streaming=False)
    assert added == {"kafka.bootstrap.servers": "b:1", "kafka.security.protocol": "SASL_SSL"}
    _, elsewhere = completion.complete({"subscribe": "o", "kafka.bootstrap.servers": "c:2"}, streaming=False)
    assert elsewhere == {}


def test_a_replay_starts_at_the_given_position() -> None:
    by_time = Completion("b:1", False, Replay(timestamp_ms=7), lambda _: {"orders": 2})
    assert by_time.complete({"subscribe": "orders"}, streaming=True)[1]["startingTimestamp"] == "7"
    by_offset = Completion("b:1", False, Replay(offset=5, offsets={"orders": {"1": 9}}), lambda _: {"orders": 2})
    _, added = by_offset.complete({"subscribe": "orders", "startingOffsets": "latest"}, streaming=True)
    assert json.loads(added["startingOffsets"]) == {"orders": {"0": 5, "1": 9}}
    assert "startingOffsets" not in by_offset.complete({"subscribe": "orders"}, streaming=False)[1]


def test_options_are_translated_for_the_jvm_provider() -> None:
    given = {"subscribe": "o", "isolation": "read_committed"}
    kind, added = Completion("b:1", is_jvm=True).complete(given, streaming=False)
    assert kind == "kafka" and added["kafka.isolation.level"] == "read_committed"
    assert sink_for_jvm({"topic": "t", "guarantee": "exactly-once", "compression": "lz4"}) == {
        "topic": "t",
        "kafka.compression.type": "lz4",
    }


def test_offsets_are_read_from_sparks_offset_log() -> None:
    text = 'v1\n{"batchWatermarkMs":0,"conf":{"a":"b"}}\n{"#ids":{"o":"x"},"o":{"0":3,"1":4}}\n-\n{"logOffset":2}'
    assert offsets_in(text) == {("o", 0): 3, ("o", 1): 4}
