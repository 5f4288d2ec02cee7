"""Tests of librdkafka's admin client."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.confluent.conftest import MakeConsumer, Read, Send
from tests.compat.conftest import MakeTopic
from tests.support.eventually import eventually


def configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (answer,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    described: dict[str, ConfigEntry] = answer.result(timeout=60)
    return described


def code_of(refused: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = refused.value.args[0].code()
    return code


def test_created_topics_are_listed_and_deleted_topics_are_not(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=3)
    assert len(admin.list_topics(timeout=60).topics[name].partitions) == 3
    admin.delete_topics([name])[name].result(timeout=60)
    eventually(lambda: name not in admin.list_topics(timeout=60).topics)
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics([name])[name].result(timeout=60)
    assert code_of(refused) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_recreated_topic_has_no_records_of_the_old_one(
    admin: AdminClient, make_topic: MakeTopic, send: Send, make_consumer: MakeConsumer
) -> None:
    name = make_topic()
    send(name, [{"value": b"old"}])
    old = admin.describe_topics(TopicCollection([name]))[name].result(timeout=60).topic_id
    admin.delete_topics([name])[name].result(timeout=60)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=60)
    assert admin.describe_topics(TopicCollection([name]))[name].result(timeout=60).topic_id != old
    assert make_consumer().get_watermark_offsets(TopicPartition(name, 0), timeout=60) == (0, 0)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("bad/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-replicas", 1, 7), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("bad-config", 1, 1, config={"no.such.config": "1"}), KafkaError.INVALID_CONFIG),
    ],
)
def test_invalid_topics_are_rejected(admin: AdminClient, topic: NewTopic, code: int) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[topic.topic].result(timeout=60)
    assert code_of(refused) == code


def test_a_topic_cannot_be_created_twice(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic()
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=60)
    assert code_of(refused) == KafkaError.TOPIC_ALREADY_EXISTS


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("only-validated", 1, 1)], validate_only=True)["only-validated"].result(timeout=60)
    assert "only-validated" not in admin.list_topics(timeout=60).topics


def test_partitions_can_be_added_but_not_removed(
    admin: AdminClient, make_topic: MakeTopic, send: Send, read: Read
) -> None:
    name = make_topic()
    admin.create_partitions([NewPartitions(name, 4)])[name].result(timeout=60)
    eventually(lambda: len(admin.list_topics(timeout=60).topics[name].partitions) == 4)
    send(name, [{"value": b"v", "partition": 3}])
    assert read(name, 1, partition=3)[0].value() == b"v"
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(name, 2)])[name].result(timeout=60)
    assert code_of(refused) == KafkaError.INVALID_PARTITIONS


def test_topic_configs_have_value_and_source(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(config={"retention.ms": "12345"})
    described = configs(admin, ResourceType.TOPIC, name)
    assert described["retention.ms"].value == "12345"
    assert ConfigSource(described["retention.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert described["segment.bytes"].value == "1073741824"
    assert described["segment.bytes"].is_default
    assert described["cleanup.policy"].value == "delete"
    assert len(described) >= 25


def test_incremental_changes_affect_only_the_named_options(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(config={"retention.ms": "12345", "segment.ms": "60000"})

    def change(option: str, value: str | None, how: AlterConfigOpType) -> None:
        entry = ConfigEntry(option, value, incremental_operation=how)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(timeout=60)

    change("max.message.bytes", "2000", AlterConfigOpType.SET)
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    change("retention.ms", None, AlterConfigOpType.DELETE)
    described = configs(admin, ResourceType.TOPIC, name)
    assert described["max.message.bytes"].value == "2000"
    assert set((described["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    assert described["retention.ms"].value == "604800000"
    assert described["segment.ms"].value == "60000"
    change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert configs(admin, ResourceType.TOPIC, name)["cleanup.policy"].value == "compact"


def test_a_changed_config_takes_effect_immediately(admin: AdminClient, make_topic: MakeTopic, send: Send) -> None:
    name = make_topic()
    send(name, [{"value": b"x" * 5000}])
    entry = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=60)
    with pytest.raises(KafkaException) as refused:
        send(name, [{"value": b"x" * 5000}])
    assert code_of(refused) == KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_the_old_alter_replaces_every_config(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(config={"retention.ms": "12345"})
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"segment.ms": "60000"})
    admin.alter_configs([resource])[resource].result(timeout=60)
    described = configs(admin, ResourceType.TOPIC, name)
    assert described["segment.ms"].value == "60000"
    assert described["retention.ms"].value == "604800000"


def test_a_wrong_config_value_is_rejected(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic()
    entry = ConfigEntry("segment.bytes", "a lot", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([resource])[resource].result(timeout=60)
    assert code_of(refused) == KafkaError.INVALID_CONFIG


def test_broker_configs_are_described_and_altered(admin: AdminClient) -> None:
    node = str(next(iter(admin.list_topics(timeout=60).brokers)))
    described = configs(admin, ResourceType.BROKER, node)
    assert {"log.segment.bytes", "num.partitions", "log.dirs", "node.id"} <= described.keys()
    assert described["node.id"].is_read_only
    entry = ConfigEntry("message.max.bytes", "1234567", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=60)
    eventually(lambda: configs(admin, ResourceType.BROKER, node)["message.max.bytes"].value == "1234567")
    changed = configs(admin, ResourceType.BROKER, node)["message.max.bytes"]
    assert ConfigSource(changed.source) is ConfigSource.DYNAMIC_BROKER_CONFIG


def test_deleted_records_move_the_log_start_offset(
    admin: AdminClient, make_topic: MakeTopic, send: Send, make_consumer: MakeConsumer, read: Read
) -> None:
    name = make_topic()
    send(name, [{"value": str(n)} for n in range(50)])
    (done,) = admin.delete_records([TopicPartition(name, 0, 20)]).values()
    assert done.result(timeout=60).low_watermark == 20
    assert make_consumer().get_watermark_offsets(TopicPartition(name, 0), timeout=60) == (20, 50)
    assert read(name, 1)[0].offset() == 20
    (refused_later,) = admin.delete_records([TopicPartition(name, 0, 51)]).values()
    with pytest.raises(KafkaException) as refused:
        refused_later.result(timeout=60)
    assert code_of(refused) == KafkaError.OFFSET_OUT_OF_RANGE


def test_list_offsets_by_every_kind_of_spec(admin: AdminClient, make_topic: MakeTopic, send: Send) -> None:
    name = make_topic()
    start = 1_700_000_000_000
    send(name, [{"value": b"v", "timestamp": start + at} for at in (0, 5000, 1000, 2000)])

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        (answer,) = admin.list_offsets({TopicPartition(name, 0): spec}).values()
        result = answer.result(timeout=60)
        return result.offset, result.timestamp

    assert offset(OffsetSpec.earliest())[0] == 0
    assert offset(OffsetSpec.latest())[0] == 4
    assert offset(OffsetSpec.max_timestamp()) == (1, start + 5000)
    assert offset(OffsetSpec.for_timestamp(start + 500)) == (1, start + 5000)


def test_describe_topics_and_cluster(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=2)
    topic = admin.describe_topics(TopicCollection([name]))[name].result(timeout=60)
    assert (topic.name, topic.is_internal, len(topic.partitions)) == (name, False, 2)
    assert topic.partitions[1].leader is not None
    cluster = admin.describe_cluster().result(timeout=60)
    assert cluster.cluster_id
    assert cluster.controller is not None
    assert [node.id for node in cluster.nodes] == [topic.partitions[0].leader.id]


def test_an_unknown_topic_is_reported_as_such(admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.describe_topics(TopicCollection(["never-made"]))["never-made"].result(timeout=60)
    assert code_of(refused) == KafkaError.UNKNOWN_TOPIC_OR_PART
