"""Tests of options: parsing, and errors that name the most similar option."""

from __future__ import annotations

import pytest

from penstock_client.errors import PenstockClientError
from penstock_client.protocol.cluster import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, parse_addresses
from penstock_spark.topics.options import sink_options, source_options

HERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_a_source_reads_committed_rows_and_commits_to_a_group_by_default() -> None:
    options = source_options({**HERE, "subscribe": "a, b"}, streaming=True)
    assert (options.topics, options.isolation, options.group) == (("a", "b"), READ_COMMITTED, "spark-a-b")
    assert options.starting.everywhere == LATEST
    other = source_options(
        {**HERE, "SUBSCRIBE": "a", "kafka.isolation.level": "read_uncommitted", "commitOffsets": "false"},
        streaming=False,
    )
    assert (other.isolation, other.group, other.starting.everywhere) == (READ_UNCOMMITTED, None, EARLIEST)


def test_the_position_option_with_the_highest_precedence_wins() -> None:
    given = {**HERE, "subscribe": "a", "startingOffsets": "earliest", "startingTimestamp": "17"}
    starting = source_options(given, streaming=True).starting
    assert (starting.is_timestamp, starting.everywhere) == (True, 17)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers is missing"),
        ({**HERE}, "exactly one of"),
        ({**HERE, "subscribe": "a", "maxOffsetPerTrigger": "1"}, "Did you mean 'maxOffsetsPerTrigger'"),
        ({**HERE, "subscribe": "a", "kafka.securty.protocol": "SSL"}, "Did you mean 'kafka.security.protocol'"),
        ({**HERE, "subscribe": "a", "kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        ({**HERE, "subscribe": "a", "failOnDataLoss": "no"}, "set it to true or false"),
        ({**HERE, "subscribe": "a", "minPartitions": "0"}, "must be at least 1"),
        ({**HERE, "subscribe": "a", "startingOffsets": "{"}, "JSON like"),
        ({**HERE, "subscribe": "a", "startingOffsets": "latest"}, "cannot start at 'latest'"),
        ({**HERE, "subscribe": "a", "endingOffsets": "earliest"}, "cannot end at 'earliest'"),
        ({**HERE, "assign": "[1]"}, "assign must be JSON"),
        ({**HERE, "subscribePattern": "("}, "not a regular expression"),
        ({**HERE, "subscribe": "a", "mode": "segments"}, "set the option dataFolder"),
        ({**HERE, "subscribe": "a", "isolation": "committed"}, "read_committed or read_uncommitted"),
        ({**HERE, "subscribe": "a", "kafka.security.protocol": "TLS"}, "is not one of PLAINTEXT"),
    ],
)
def test_a_mistake_in_a_source_is_reported(given: dict[str, str], expected: str) -> None:
    with pytest.raises(PenstockClientError, match=expected):
        source_options(given, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(PenstockClientError, match="a stream has no end"):
        source_options({**HERE, "subscribe": "a", "endingOffsets": "latest"}, streaming=True)


def test_a_sink_is_exactly_once_by_default() -> None:
    assert sink_options({**HERE, "topic": "t", "checkpointLocation": "/x"}).exactly_once
    given = {**HERE, "guarantee": "at_least_once", "kafka.compression.type": "lz4", "kafka.linger.ms": "5"}
    options = sink_options(given)
    assert (options.exactly_once, options.codec) == (False, 3)


def test_addresses() -> None:
    assert parse_addresses("a:1, [::1]:2") == [("a", 1), ("::1", 2)]
    for wrong in ("a", "a:b", ""):
        with pytest.raises(PenstockClientError, match="host:port"):
            parse_addresses(wrong)
