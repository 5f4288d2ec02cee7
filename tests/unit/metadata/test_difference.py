"""The difference of two images equals the delta of the records between them."""

from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY
from penstock.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from tests.unit.metadata.samples import after, broker, config, partition, topic, topic_id


def test_only_the_differences_are_in_the_delta() -> None:
    _, before = after(
        EMPTY, [*topic("kept", 1, partitions=2), *topic("gone", 2), broker(1), config("a", "1", topic="kept")]
    )
    changes = [
        RemoveTopicRecord(topic_id=topic_id(2)),
        *topic("made", 3),
        PartitionChangeRecord(partition_id=1, topic_id=topic_id(1), leader=2),
        partition(1, 2),
        config("a", "2", topic="kept"),
        broker(2),
    ]
    delta, image = after(before, changes)
    found = difference(before, image)
    assert found.topics_created == delta.topics_created
    assert found.topics_deleted == delta.topics_deleted
    assert found.topics_changed == delta.topics_changed
    assert found.partitions_changed == delta.partitions_changed
    assert found.configs_changed == delta.configs_changed
    assert found.brokers_changed == delta.brokers_changed


def test_an_image_does_not_differ_from_itself() -> None:
    _, image = after(EMPTY, [*topic("kept", 1), broker(1)])
    found = difference(image, image)
    assert not (found.topics_created or found.topics_deleted or found.topics_changed or found.brokers_changed)
