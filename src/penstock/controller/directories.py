"""Decisions on log directories: which are online, and which replica is in which.

Pure. A replica in a directory that is not online, or in LOST, leaves the ISR and the ELR and cannot lead; when it is
assigned to an online one, its leader may add it to the ISR again. Calls leaders.py. Refuses: StaleBrokerEpoch;
per partition UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import (
    Living,
    Rules,
    assign,
    change,
    directory_of,
    is_online,
    partitions,
    settle,
    without,
)
from penstock.metadata.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord
from penstock.model.errors import NotLeaderOrFollower, Refusal, UnknownTopicId, UnknownTopicOrPartition
from penstock.model.ids import NodeId


@dataclass(frozen=True, slots=True)
class ReplicaDirectory:
    """A replica of the requesting broker, and its directory."""

    topic_id: UUID
    partition: int
    directory: UUID


def directories_offline(
    image: Image, broker: BrokerImage, offline: Sequence[UUID], rules: Rules
) -> Sequence[MetadataRecord]:
    """Return the records for a broker that has lost directories; their replicas are no longer trusted."""
    lost = [directory for directory in broker.log_dirs if directory in offline]
    if not lost:
        return ()
    remaining = tuple(directory for directory in broker.log_dirs if directory not in lost)
    records: list[MetadataRecord] = []
    for topic, index, partition in partitions(image):
        if broker.node_id in partition.replicas and directory_of(partition, broker.node_id) in lost:
            records.extend(_remove_untrusted(image, broker.node_id, topic, index, partition, partition, rules))
    # An empty list would mean no change: a broker without any directory has to fence itself.
    if remaining:
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, log_dirs=remaining)
        )
    return records


def decide_assignment(
    image: Image, node_id: NodeId, broker_epoch: int, replicas: Sequence[ReplicaDirectory], rules: Rules
) -> ControllerDecision[tuple[Refusal | None, ...]]:
    """Record the directories of the broker's replicas; None for each replica that succeeds."""
    broker = check_broker_epoch(image, node_id, broker_epoch)
    records: list[MetadataRecord] = []
    outcomes: list[Refusal | None] = []
    for replica in replicas:
        try:
            records.extend(_assign(image, broker, replica, rules))
        except Refusal as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append(None)
    return ControllerDecision(records, tuple(outcomes))


def _assign(image: Image, broker: BrokerImage, replica: ReplicaDirectory, rules: Rules) -> Sequence[MetadataRecord]:
    topic = image.topics_by_id.get(replica.topic_id)
    if topic is None:
        raise UnknownTopicId
    if not 0 <= replica.partition < len(topic.partitions):
        raise UnknownTopicOrPartition
    before = topic.partitions[replica.partition]
    if broker.node_id not in before.replicas:
        raise NotLeaderOrFollower
    wanted = assign(before, broker.node_id, replica.directory)
    if not is_online(broker.log_dirs, replica.directory):
        return _remove_untrusted(image, broker.node_id, topic, replica.partition, wanted, before, rules)
    after = settle(wanted, before, living=Living(image), settings=rules.topic(image, topic.name))
    record = change(topic.id, replica.partition, before, after)
    return () if record is None else (record,)


def _remove_untrusted(
    image: Image,
    node_id: NodeId,
    topic: TopicImage,
    index: int,
    wanted: PartitionImage,
    before: PartitionImage,
    rules: Rules,
) -> Sequence[MetadataRecord]:
    after = settle(
        replace(wanted, isr=without(wanted.isr, node_id)),
        before,
        living=Living(image, leaves=node_id),
        settings=rules.topic(image, topic.name),
        untrusted=(node_id,),
    )
    record = change(topic.id, index, before, after)
    return () if record is None else (record,)
