"""Decides on brokers: the registration of a process that has come up.

Pure. The node registers itself before it serves. Its epoch is the offset of its registration
in the metadata log, so a later process of the same id always has a higher one. Refuses nothing:
the lock on the data folder and the one-voter quorum keep a second process of the id away.
"""

from dataclasses import dataclass
from uuid import UUID

from penstock.controller.decision import Decision
from penstock.controller.features import SUPPORTED
from penstock.metadata.image import Image, PartitionImage
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from penstock.model.ids import NO_NODE, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a process says of itself; the incarnation id is fresh with every start."""

    node_id: NodeId
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()


def decide_registration(image: Image, registration: Registration) -> Decision[int]:
    """Register the process as one that can serve, and reply with its epoch."""
    epoch = image.offset + 1
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            broker_id=registration.node_id,
            incarnation_id=registration.incarnation_id,
            broker_epoch=epoch,
            end_points=registration.end_points,
            features=tuple(
                BrokerFeature(name=name, min_supported_version=levels.least, max_supported_version=levels.most)
                for name, levels in SUPPORTED.items()
            ),
            rack=registration.rack,
            fenced=False,
            log_dirs=registration.log_dirs,
        )
    ]
    # The process before this one may have acknowledged records that a crash took back. A new
    # leader epoch lets consumers notice that their position is on another branch (KIP-320).
    records.extend(
        PartitionChangeRecord(partition_id=index, topic_id=topic.id, leader=registration.node_id)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if _leads_again(partition, registration.node_id)
    )
    return Decision(records, epoch)


def _leads_again(partition: PartitionImage, node_id: NodeId) -> bool:
    return partition.leader == node_id or (partition.leader == NO_NODE and node_id in partition.isr)
