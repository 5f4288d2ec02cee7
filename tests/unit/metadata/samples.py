"""Records used by several tests."""

from collections.abc import Sequence
from uuid import UUID

from penstock.metadata.delta import Delta, apply
from penstock.metadata.image import Image
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.model.ids import LeaderEpoch, Offset

DIRECTORY = UUID(int=77)


def topic_id(number: int) -> UUID:
    return UUID(int=number << 64 | number)


def partition(number: int, index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id(number),
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DIRECTORY, DIRECTORY),
    )


def topic(name: str, number: int, *, partitions: int = 1) -> list[MetadataRecord]:
    """Return the records that create a topic; its id is derived from the number."""
    made = [partition(number, index) for index in range(partitions)]
    return [TopicRecord(name=name, topic_id=topic_id(number)), *made]


def config(name: str, value: str | None, *, topic: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


def broker(node_id: int, *, epoch: int = 5) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=UUID(int=node_id),
        broker_epoch=epoch,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0),),
        features=(BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
        rack="a",
        log_dirs=(DIRECTORY,),
    )


def after(image: Image, records: Sequence[MetadataRecord]) -> tuple[Delta, Image]:
    """Apply the records as one commit."""
    return apply(image, records, offset=Offset(image.offset + len(records)), epoch=LeaderEpoch(1))
