"""Images for decisions, built from the records that decisions return."""

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from penstock.config.settings import BrokerSettings, topic_settings
from penstock.controller.brokers import Registration, deciding_fencing, deciding_registration
from penstock.controller.decision import ControllerDecision
from penstock.controller.features import OWN_FEATURES
from penstock.controller.heartbeats import Heartbeat, HeartbeatReply, deciding_heartbeat
from penstock.controller.leaders import Rules
from penstock.controller.sessions import Sessions
from penstock.controller.topics import CreationRules
from penstock.metadata import delta
from penstock.metadata.image import EMPTY, Image, PartitionImage
from penstock.metadata.records import (
    BrokerEndpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.model.ids import LeaderEpoch, NodeId, Offset, TopicName
from penstock.model.job import finish

LEADER_RULES = Rules(BrokerSettings({"min.insync.replicas": "2"}))
TOPIC_ID = UUID(int=4711)


def apply(image: Image, records: Sequence[MetadataRecord]) -> Image:
    return delta.apply(image, records, offset=Offset(image.offset + len(records)), epoch=LeaderEpoch(1))[1]


def broker(
    node_id: int,
    *,
    rack: str | None = None,
    host: str | None = None,
    fenced: bool = False,
    leaving: bool = False,
    read_only: bool = False,
) -> MetadataRecord:
    host = host or f"host{node_id}"
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=UUID(int=1000 + node_id),
        broker_epoch=node_id,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host=host, port=9092, security_protocol=0),),
        features=OWN_FEATURES,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=leaving,
        log_dirs=(directory(node_id),),
        read_only=read_only,
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


def with_partition(
    image: Image,
    *,
    leader: int,
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    elr: Sequence[int] = (),
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    last_known: Sequence[int] = (),
    recovery_state: int = 0,
) -> Image:
    """Return the image with a topic "t" of one partition."""
    records: list[MetadataRecord] = [
        TopicRecord(name="t", topic_id=TOPIC_ID),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=tuple(replicas),
            isr=tuple(replicas if isr is None else isr),
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
            adding_replicas=tuple(adding),
            removing_replicas=tuple(removing),
            eligible_leader_replicas=tuple(elr),
            last_known_elr=tuple(last_known),
            leader_recovery_state=recovery_state,
            directories=tuple(directory(node_id) for node_id in replicas),
        ),
    ]
    return apply(image, records)


def partition(image: Image) -> PartitionImage:
    return image.topics[TopicName("t")].partitions[0]


def decide_registration(image: Image, registration: Registration, **more: Any) -> ControllerDecision[int]:
    return finish(deciding_registration(image, registration, **more))


def decide_fencing(image: Image, node_id: NodeId, *, epoch: int, rules: Rules) -> ControllerDecision[bool]:
    return finish(deciding_fencing(image, node_id, epoch=epoch, rules=rules))


def decide_heartbeat(
    image: Image, heartbeat: Heartbeat, *, sessions: Sessions, rules: Rules
) -> ControllerDecision[HeartbeatReply]:
    return finish(deciding_heartbeat(image, heartbeat, sessions=sessions, rules=rules))
