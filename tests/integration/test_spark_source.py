"""The readers of the Spark source against a live broker, called as Spark calls them, but in this process."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from penstock.testing import Broker
from penstock_client.errors import PenstockClientError
from penstock_spark.topics.options import source_options
from penstock_spark.topics.readers import PenstockBatchReader, PenstockStreamReader

NUMBERS = itertools.count(1)
SCHEMA = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
FIRST_MS = 1_700_000_000_000


@dataclass
class Topic:
    """A topic with two partitions; `options` are those of a query that reads it."""

    broker: Broker
    name: str
    admin: AdminClient

    def write(self, partition: int, *values: str, transaction: str = "") -> None:
        """Write values; with "abort" or "commit", in a transaction that ends so."""
        more = {"transactional.id": f"{self.name}-{next(NUMBERS)}"} if transaction else {}
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, **more})
        if transaction:
            producer.init_transactions(60)
            producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(self.name, value, partition=partition, timestamp=FIRST_MS + 1000 * number)
        assert producer.flush(60) == 0
        if transaction == "abort":
            producer.abort_transaction(60)
        elif transaction:
            producer.commit_transaction(60)

    def options(self, **changes: Any) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": self.name, **changes}
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items() if value}

    def batch(self, **changes: Any) -> PenstockBatchReader:
        return PenstockBatchReader(source_options(self.options(**changes), streaming=False), SCHEMA)

    def read(self, **changes: Any) -> list[str]:
        """Return the values of a batch read, in the order of the tasks."""
        reader = self.batch(**changes)
        return values(reader, reader.partitions())

    def stream(self, **changes: Any) -> PenstockStreamReader:
        return PenstockStreamReader(source_options(self.options(**changes), streaming=True), SCHEMA)


def values(reader: Any, partitions: Any) -> list[str]:
    batches = itertools.chain.from_iterable(reader.read(partition) for partition in partitions)
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


@pytest.fixture
def topic(penstock_broker_shared: Broker) -> Topic:
    admin = AdminClient({"bootstrap.servers": penstock_broker_shared.bootstrap})
    name = f"spark-source-{next(NUMBERS)}"
    config = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(name, 2, 1, config=config)])[name].result(timeout=60)
    return Topic(penstock_broker_shared, name, admin)


@pytest.fixture
def filled(topic: Topic) -> Topic:
    topic.write(0, "a", "b", "c")
    topic.write(1, "d", "e")
    return topic


@pytest.fixture
def streamed(filled: Topic) -> Iterator[PenstockStreamReader]:
    reader = filled.stream(startingOffsets="earliest")
    yield reader
    reader.stop()


def test_a_batch_reads_everything_between_its_positions(filled: Topic) -> None:
    assert filled.read() == ["a", "b", "c", "d", "e"]
    assert filled.read(startingOffsets={filled.name: {"0": 1, "1": -1}}) == ["b", "c"]
    assert filled.read(endingOffsets={filled.name: {"0": -1, "1": 1}}) == ["a", "b", "c", "d"]
    assert filled.read(subscribe="", assign={filled.name: [1]}) == ["d", "e"]
    pattern = f"{filled.name[:-1]}[{filled.name[-1]}]"
    assert filled.read(subscribe="", subscribePattern=pattern) == ["a", "b", "c", "d", "e"]


def test_a_batch_reads_from_a_time(filled: Topic) -> None:
    assert filled.read(startingTimestamp=str(FIRST_MS + 1000)) == ["b", "c", "e"]
    # No record is as late: the read starts at the end.
    assert filled.read(startingTimestamp=str(FIRST_MS + 9000)) == []
    by_partition = {filled.name: {"0": FIRST_MS + 2000, "1": FIRST_MS}}
    assert filled.read(startingOffsetsByTimestamp=by_partition) == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"subscribe": "", "subscribePattern": "nothing-.*"}, "matches subscribePattern 'nothing-.*'; there are "),
        ({"subscribe": "spark-source-missing"}, "spark-source-missing"),
        ({"startingOffsets": {"TOPIC": {"0": 1}}}, r"startingOffsets lacks .*-1: give every partition an offset"),
        ({"startingOffsets": {"TOPIC": {"0": 1, "1": 0, "7": 0}}}, r"startingOffsets has .*-7, which is not read"),
        ({"startingOffsetsByTimestamp": {"TOPIC": {"0": 1}}}, r"startingOffsetsByTimestamp lacks "),
        ({"startingOffsets": {"TOPIC": {"0": 99, "1": 0}}}, "99"),
        ({"mode": "segments", "dataFolder": "/no/such/folder"}, "dataFolder must be the broker's log.dirs"),
    ],
)
def test_a_position_that_does_not_exist_is_reported(filled: Topic, changes: dict[str, Any], why: str) -> None:
    given = json.loads(json.dumps(changes).replace("TOPIC", filled.name))
    with pytest.raises(PenstockClientError, match=why):
        filled.batch(**given).partitions()


@pytest.mark.parametrize("mode", ("fetch", "segments", "auto"))
def test_aborted_records_are_not_read_from_the_broker_or_from_its_files(topic: Topic, mode: str) -> None:
    topic.write(0, "a", "b")
    # The records are old and the marker is new, so it is in another segment, whose index is not written yet.
    topic.write(0, "x", "y", transaction="abort")
    topic.write(0, "c", transaction="commit")
    options = {"mode": mode, "dataFolder": str(topic.broker.data) if mode != "fetch" else ""}
    assert topic.read(**options) == ["a", "b", "c"]
    assert topic.read(isolation="read_uncommitted", **options) == ["a", "b", "x", "y", "c"]
    assert topic.read(startingOffsets={topic.name: {"0": 1, "1": 0}}, **options) == ["b", "c"]


def test_the_files_of_another_topic_of_the_same_name_are_rejected(filled: Topic, tmp_path: Any) -> None:
    folder = tmp_path / f"{filled.name}-0"
    folder.mkdir()
    (folder / f"{0:020}.log").touch()
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with pytest.raises(PenstockClientError, match="has a topic of the same name with another id"):
        filled.batch(mode="auto", dataFolder=str(tmp_path)).partitions()


def test_a_stream_goes_on_where_its_last_batch_ended(filled: Topic, streamed: PenstockStreamReader) -> None:
    start = streamed.initialOffset()
    end = streamed.latestOffset(start, ReadAllAvailable())
    assert values(streamed, streamed.partitions(start, end)) == ["a", "b", "c", "d", "e"]
    assert streamed.latestOffset(end, ReadAllAvailable()) == end
    assert streamed.partitions(end, end) == []
    filled.write(1, "f")
    later = streamed.latestOffset(end, ReadAllAvailable())
    assert later == streamed.reportLatestOffset()
    assert values(streamed, streamed.partitions(end, later)) == ["f"]


def test_a_trigger_may_be_limited_to_many_or_few_rows(streamed: PenstockStreamReader) -> None:
    start = streamed.initialOffset()
    end = streamed.latestOffset(start, ReadMaxRows(2))
    assert len(values(streamed, streamed.partitions(start, end))) == 2
    assert streamed.latestOffset(start, ReadMinRows(100)) == start, "too few rows to begin"
    assert streamed.latestOffset(start, ReadMinRows(5)) == streamed.reportLatestOffset()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, ReadAllAvailable),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows),
        ({"minOffsetsPerTrigger": "7"}, ReadMinRows),
    ],
)
def test_the_limit_of_a_trigger_is_an_option(topic: Topic, options: dict[str, str], kind: type[Any]) -> None:
    assert isinstance(topic.stream(**options).getDefaultReadLimit(), kind)


def test_a_stream_of_what_is_available_ends_there(filled: Topic, streamed: PenstockStreamReader) -> None:
    streamed.prepareForTriggerAvailableNow()
    filled.write(0, "late")
    start = streamed.initialOffset()
    end = streamed.latestOffset(start, ReadMinRows(100))
    assert values(streamed, streamed.partitions(start, end)) == ["a", "b", "c", "d", "e"]


def test_a_new_partition_is_read_from_its_beginning(filled: Topic, streamed: PenstockStreamReader) -> None:
    start = streamed.latestOffset(streamed.initialOffset(), ReadAllAvailable())
    from confluent_kafka.admin import NewPartitions

    filled.admin.create_partitions([NewPartitions(filled.name, 3)])[filled.name].result(timeout=60)
    filled.write(2, "new")
    end = streamed.latestOffset(start, ReadAllAvailable())
    assert values(streamed, streamed.partitions(start, end)) == ["new"]


def test_a_partition_that_is_no_longer_read_stops_the_query_unless_loss_is_accepted(filled: Topic) -> None:
    streamed = filled.stream(startingOffsets="earliest")
    start = streamed.initialOffset()
    streamed.stop()
    one = filled.stream(subscribe="", assign={filled.name: [0]})
    with pytest.raises(PenstockClientError, match=f"the checkpoint has offsets of {filled.name}-1, which the query no"):
        one.latestOffset(start, ReadAllAvailable())
    one.stop()
    tolerant = filled.stream(subscribe="", assign={filled.name: [0]}, failOnDataLoss="false")
    end = tolerant.latestOffset(start, ReadAllAvailable())
    assert values(tolerant, tolerant.partitions(start, end))[:3] == ["a", "b", "c"]
    tolerant.stop()


def test_records_that_were_deleted_stop_the_query_unless_loss_is_accepted(filled: Topic) -> None:
    first = filled.stream(startingOffsets="earliest")
    start = first.initialOffset()
    first.stop()
    (done,) = filled.admin.delete_records([TopicPartition(filled.name, 0, 2)]).values()
    done.result(timeout=60)
    strict, tolerant = filled.stream(), filled.stream(failOnDataLoss="false")
    with pytest.raises(PenstockClientError, match=f"{filled.name}-0"):
        strict.latestOffset(start, ReadAllAvailable())
    strict.stop()
    assert tolerant.latestOffset(start, ReadAllAvailable()) == tolerant.reportLatestOffset()
    tolerant.stop()


def test_the_offsets_of_a_query_are_committed_to_its_group(filled: Topic) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    streamed = filled.stream(startingOffsets="earliest", groupId=f"{filled.name}-group")
    end = streamed.latestOffset(streamed.initialOffset(), ReadAllAvailable())
    streamed.commit(end)
    streamed.commit(end)
    streamed.stop()
    wanted = [ConsumerGroupTopicPartitions(f"{filled.name}-group")]
    (found,) = filled.admin.list_consumer_group_offsets(wanted).values()
    offsets = {each.partition: each.offset for each in found.result(timeout=60).topic_partitions}
    assert offsets == {0: 3, 1: 2}


def test_a_query_without_a_group_commits_nothing(filled: Topic) -> None:
    streamed = filled.stream(startingOffsets="earliest", commitOffsets="false")
    streamed.commit(streamed.initialOffset())
    streamed.stop()
    groups = filled.admin.list_consumer_groups().result(timeout=60).valid
    assert not [each.group_id for each in groups if filled.name in each.group_id]
