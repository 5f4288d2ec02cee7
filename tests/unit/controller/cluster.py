"""Images to decide on, built of the same records that decisions give."""

import itertools
from collections.abc import Sequence
from random import Random
from uuid import UUID

from penstock.config.settings import BrokerSettings, topic_settings
from penstock.controller.topics import CreationRules
from penstock.metadata import delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import BrokerEndpoint, MetadataRecord, RegisterBrokerRecord
from penstock.model.ids import LeaderEpoch, NodeId, Offset


def apply(image: Image, records: Sequence[MetadataRecord]) -> Image:
    return delta.apply(image, records, offset=Offset(image.offset + len(records)), epoch=LeaderEpoch(1))[1]


def broker(node_id: int, *, rack: str | None = None, fenced: bool = False, leaving: bool = False) -> MetadataRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=UUID(int=1000 + node_id),
        broker_epoch=node_id,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host=f"host{node_id}", port=9092, security_protocol=0),),
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=leaving,
        log_dirs=(directory(node_id),),
    )


def directory(node_id: int) -> UUID:
    return UUID(int=500 + node_id)


def cluster(*brokers: MetadataRecord) -> Image:
    return apply(EMPTY, brokers or (broker(1),))


def rules(*, partition_count: int = 1, replication_factor: int = 1, first_id: int = 1) -> CreationRules:
    ids = itertools.count(first_id)
    settings = BrokerSettings()
    return CreationRules(
        partition_count=partition_count,
        replication_factor=replication_factor,
        check_configs=lambda overrides: topic_settings(settings, overrides),
        new_id=lambda: UUID(int=next(ids)),
        random=Random(7),
    )


def node_ids(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))
