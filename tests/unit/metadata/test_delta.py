"""The changes of records to the image, and their description in a delta."""

import pytest

from penstock.metadata.delta import Delta, apply
from penstock.metadata.image import BROKER, EMPTY, TOPIC, ConfigResource
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)
from penstock.model.errors import Corruption
from penstock.model.ids import LeaderEpoch, NodeId, Offset, TopicName
from tests.unit.metadata.samples import DIRECTORY, after, broker, config, partition, topic, topic_id

ORDERS = TopicName("orders")


def test_a_new_topic_is_in_the_image_by_name_and_by_id() -> None:
    delta, image = after(EMPTY, topic("orders", 1, partitions=2))
    made = image.topics[ORDERS]
    assert image.topics_by_id[topic_id(1)] is made
    assert delta.topics_created == (made,)
    assert delta.topics_changed == delta.topics_deleted == ()
    assert delta.partitions_changed == {topic_id(1): {0, 1}}
    assert image.partition(ORDERS, 1) == made.partitions[1]
    assert image.partition(ORDERS, 2) is None and image.partition(TopicName("other"), 0) is None
    assert (image.offset, image.epoch) == (2, 1)


def test_the_old_image_does_not_change() -> None:
    _, before = after(EMPTY, [*topic("orders", 1), config("retention.ms", "5", topic="orders")])
    after(before, [RemoveTopicRecord(topic_id=topic_id(1)), *topic("sales", 2)])
    assert set(before.topics) == {"orders"}
    assert before.topic_config(ORDERS) == {"retention.ms": "5"}


def test_unchanged_parts_are_shared() -> None:
    _, before = after(EMPTY, [*topic("orders", 1), *topic("sales", 2), broker(1)])
    _, image = after(before, [partition(2, 1)])
    assert image.topics[ORDERS] is before.topics[ORDERS]
    assert image.brokers is before.brokers
    assert image.configs is before.configs
    _, image = after(before, [NoOpRecord()])
    assert image.topics is before.topics and image.topics_by_id is before.topics_by_id


def test_a_topic_deleted_and_created_again_has_another_id_and_no_old_state() -> None:
    _, before = after(EMPTY, [*topic("orders", 1, partitions=3), config("retention.ms", "5", topic="orders")])
    delta, image = after(before, [RemoveTopicRecord(topic_id=topic_id(1)), *topic("orders", 2)])
    assert [made.id for made in delta.topics_created] == [topic_id(2)]
    assert [gone.id for gone in delta.topics_deleted] == [topic_id(1)]
    assert image.topics[ORDERS].id == topic_id(2)
    assert len(image.topics[ORDERS].partitions) == 1
    assert set(image.topics_by_id) == {topic_id(2)}
    assert image.topic_config(ORDERS) == {}
    assert delta.configs_changed == {ConfigResource(TOPIC, "orders")}


def test_a_topic_created_and_deleted_within_one_delta_is_not_in_it() -> None:
    delta, image = after(
        EMPTY,
        [*topic("orders", 1), config("retention.ms", "5", topic="orders"), RemoveTopicRecord(topic_id=topic_id(1))],
    )
    assert not image.topics and not image.topics_by_id and not image.configs
    assert not delta.topics_created and not delta.topics_deleted and not delta.partitions_changed


def test_added_partitions_change_a_topic() -> None:
    _, before = after(EMPTY, topic("orders", 1))
    delta, image = after(before, [partition(1, 1), partition(1, 2)])
    assert [changed.name for changed in delta.topics_changed] == ["orders"]
    assert delta.partitions_changed == {topic_id(1): {1, 2}}
    assert len(image.topics[ORDERS].partitions) == 3


def test_a_change_with_a_leader_begins_a_leader_epoch() -> None:
    _, image = after(EMPTY, topic("orders", 1))
    _, image = after(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=2, isr=(2,))])
    changed = image.topics[ORDERS].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 1, 1)
    assert changed.isr == (2,) and changed.replicas == (1, 2)
    assert changed.directories == (DIRECTORY, DIRECTORY)
    shrunk = PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), isr=(), eligible_leader_replicas=(2,))
    _, image = after(image, [shrunk])
    changed = image.topics[ORDERS].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 1, 2)
    assert changed.isr == () and changed.eligible_leader_replicas == (2,)


def test_configs_are_set_and_removed_one_by_one() -> None:
    cluster = ConfigRecord(resource_type=BROKER, resource_name="", name="log.retention.ms", value="9")
    _, image = after(EMPTY, [config("a", "1", topic="t"), config("b", "2", topic="t"), cluster])
    assert image.config(ConfigResource(TOPIC, "t")) == {"a": "1", "b": "2"}
    delta, image = after(image, [config("a", None, topic="t"), config("b", "3", topic="t")])
    assert image.config(ConfigResource(TOPIC, "t")) == {"b": "3"}
    assert delta.configs_changed == {ConfigResource(TOPIC, "t")}
    _, image = after(image, [config("b", None, topic="t")])
    assert set(image.configs) == {ConfigResource(BROKER, "")}


def test_features_of_level_zero_are_removed() -> None:
    _, image = after(EMPTY, [FeatureLevelRecord(name="group.version", feature_level=1)])
    delta, image = after(image, [FeatureLevelRecord(name="group.version", feature_level=0)])
    assert image.features == {} and delta.features_changed == {"group.version"}


def test_brokers_register_unfence_and_unregister() -> None:
    delta, image = after(EMPTY, [broker(1)])
    assert delta.brokers_changed == {NodeId(1)} and not list(image.live_brokers())
    _, image = after(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1)])
    (live,) = image.live_brokers()
    assert live.log_dirs == (DIRECTORY,)
    end_point = live.end_point("PLAINTEXT")
    assert end_point is not None and end_point.port == 9092
    assert live.end_point("SSL") is None
    shutdown = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1, fenced=1)
    _, image = after(image, [shutdown])
    assert image.brokers[NodeId(1)].in_controlled_shutdown and image.brokers[NodeId(1)].fenced
    _, image = after(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=5)])
    assert not image.brokers


def test_producer_ids_only_increase() -> None:
    _, image = after(EMPTY, [ProducerIdsRecord(broker_id=1, next_producer_id=1000)])
    assert image.next_producer_id == 1000
    with pytest.raises(Corruption):
        after(image, [ProducerIdsRecord(broker_id=1, next_producer_id=999)])


@pytest.mark.parametrize(
    "record",
    [
        *topic("orders", 9)[:1],
        *topic("sales", 1)[:1],
        partition(1, 2),
        partition(5, 0),
        PartitionChangeRecord(partition_id=1, topic_id=topic_id(1)),
        RemoveTopicRecord(topic_id=topic_id(5)),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=5),
    ],
)
def test_records_that_do_not_fit_are_refused(record: MetadataRecord) -> None:
    _, image = after(EMPTY, [*topic("orders", 1), broker(1)])
    with pytest.raises(Corruption):
        after(image, [record])


def test_one_delta_over_many_records_is_the_same_as_many_deltas() -> None:
    records: list[MetadataRecord] = [
        *topic("orders", 1, partitions=2),
        broker(1),
        config("a", "1", topic="orders"),
        RemoveTopicRecord(topic_id=topic_id(1)),
        *topic("orders", 2),
        partition(2, 1),
        PartitionChangeRecord(partition_id=1, topic_id=topic_id(2), leader=2),
        config("a", "2", topic="orders"),
        FeatureLevelRecord(name="f", feature_level=3),
        broker(1, epoch=9),
    ]
    _, at_once = apply(EMPTY, records, offset=Offset(len(records) - 1), epoch=LeaderEpoch(1))
    image = EMPTY
    for record in records:
        _, image = after(image, [record])
    assert image == at_once


def test_a_late_subscriber_receives_the_whole_image() -> None:
    _, image = after(EMPTY, [*topic("orders", 1, partitions=2), broker(1), config("a", "1", topic="orders")])
    delta = Delta.whole(image)
    assert delta.topics_created == (image.topics[ORDERS],)
    assert delta.partitions_changed == {topic_id(1): {0, 1}}
    assert delta.configs_changed == {ConfigResource(TOPIC, "orders")} and delta.brokers_changed == {NodeId(1)}
