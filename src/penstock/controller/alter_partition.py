"""Decides on AlterPartition: a leader's wish to change who is in sync.

Pure; the table of checks stands in docs/internals/controller.md. A change may complete a reassignment, and with that
move the leader away from who asked. Goes to leaders.py. Refuses: StaleBrokerEpoch for all; per partition
UnknownTopicId, UnknownTopicOrPartition, NotController, FencedLeaderEpoch, InvalidUpdateVersion, InvalidRequest,
IneligibleReplica, NewLeaderElected (which is done nevertheless).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from penstock.controller.brokers import NO_BROKER_EPOCH, check_broker_epoch
from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import (
    Living,
    Rules,
    can_serve,
    change,
    directory_online,
    settle,
)
from penstock.metadata.image import RECOVERED, RECOVERING, Image, PartitionImage, TopicImage
from penstock.metadata.records import NO_CHANGE, MetadataRecord
from penstock.model.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    Refusal,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model.ids import LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A replica that is to be in sync; the epoch its broker fetched with, or -1 if that is not known."""

    node_id: NodeId
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """What the leader wants of one partition, and from which state on."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    leader_recovery_state: int = RECOVERED


def decide_alter_partition(
    image: Image, node_id: NodeId, broker_epoch: int, changes: Sequence[IsrChange], rules: Rules
) -> ControllerDecision[tuple[PartitionImage | Refusal, ...]]:
    """Decide on each partition: the partition as it is then, or why it is not changed."""
    check_broker_epoch(image, node_id, broker_epoch)
    records: list[MetadataRecord] = []
    outcomes: list[PartitionImage | Refusal] = []
    asked: set[tuple[UUID, int]] = set()
    for wish in changes:
        try:
            if (wish.topic_id, wish.partition) in asked:
                raise InvalidRequest("The partition is named twice.")
            asked.add((wish.topic_id, wish.partition))
            outcomes.append(_alter(image, node_id, wish, rules, records))
        except Refusal as refusal:
            outcomes.append(refusal)
    return ControllerDecision(records, tuple(outcomes))


def _alter(
    image: Image, node_id: NodeId, wish: IsrChange, rules: Rules, records: list[MetadataRecord]
) -> PartitionImage:
    topic = image.topics_by_id.get(wish.topic_id)
    if topic is None:
        raise UnknownTopicId
    if not 0 <= wish.partition < len(topic.partitions):
        raise UnknownTopicOrPartition
    before = topic.partitions[wish.partition]
    _check_epochs(before, node_id, wish)
    _check_members(image, before, node_id, wish)
    isr = tuple(member.node_id for member in wish.isr)
    wanted = replace(before, isr=isr, leader_recovery_state=_recovery_state(before, isr, wish))
    return _settled(image, topic, wish.partition, wanted, before, node_id, rules, records)


def _recovery_state(before: PartitionImage, isr: Sequence[NodeId], wish: IsrChange) -> int:
    """The state stays RECOVERING until every replica has joined: it allows those to remove committed records."""
    is_known_everywhere = all(node_id in isr for node_id in before.replicas)
    if before.leader_recovery_state == RECOVERING and not is_known_everywhere:
        return RECOVERING
    return wish.leader_recovery_state


def _settled(
    image: Image,
    topic: TopicImage,
    index: int,
    wanted: PartitionImage,
    before: PartitionImage,
    node_id: NodeId,
    rules: Rules,
    records: list[MetadataRecord],
) -> PartitionImage:
    after = settle(wanted, before, living=Living(image), settings=rules.topic(image, topic.name))
    joined = after.leader in wanted.isr and after.leader not in before.isr
    if joined and (before.leader_recovery_state == RECOVERING or not before.adding_replicas):
        # It leads in a second record: to join and to lead in one would look like an unclean election. (A reassignment
        # that is completed changes the replicas, too.)
        joining = change(topic.id, index, before, replace(before, isr=wanted.isr))
        assert joining is not None, "the in-sync set has a new member"
        records.append(joining)
        before = replace(before, isr=wanted.isr)
    record = change(topic.id, index, before, after)
    if record is None:
        return before
    records.append(record)
    if after.leader != node_id:
        raise NewLeaderElected
    return replace(
        after,
        leader_epoch=before.leader_epoch if record.leader == NO_CHANGE else LeaderEpoch(before.leader_epoch + 1),
        partition_epoch=before.partition_epoch + 1,
    )


def _check_epochs(partition: PartitionImage, node_id: NodeId, wish: IsrChange) -> None:
    # Whoever knows more than this controller has heard it from a newer one.
    if wish.leader_epoch > partition.leader_epoch or wish.partition_epoch > partition.partition_epoch:
        raise NotController
    if wish.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch
    if partition.leader != node_id:
        raise InvalidRequest(f"Node {node_id} does not lead the partition.")
    if wish.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"The partition is at epoch {partition.partition_epoch}, not at {wish.partition_epoch}."
        )


def _check_members(image: Image, partition: PartitionImage, node_id: NodeId, wish: IsrChange) -> None:
    members = [member.node_id for member in wish.isr]
    if len(dict.fromkeys(members)) != len(members) or any(each not in partition.replicas for each in members):
        raise InvalidRequest(f"{members} cannot be in sync among {list(partition.replicas)}.")
    if node_id not in members:
        raise InvalidRequest("The leader is always in sync with itself.")
    if wish.leader_recovery_state == RECOVERING:
        if len(members) > 1:
            raise InvalidRequest("Nobody is in sync with a leader that is still recovering.")
        if partition.leader_recovery_state == RECOVERED:
            raise InvalidRequest("A leader that has recovered does not recover again.")
    for member in wish.isr:
        problem = _ineligible(image, partition, member)
        if problem is not None:
            raise IneligibleReplica(f"Node {member.node_id} cannot be in sync: {problem}.")


def _ineligible(image: Image, partition: PartitionImage, member: IsrMember) -> str | None:
    broker = image.brokers.get(member.node_id)
    if broker is None:
        return "it is not registered"
    if not can_serve(broker):
        return "it is fenced" if broker.fenced else "it is shutting down"
    if member.broker_epoch not in (NO_BROKER_EPOCH, broker.epoch):
        return f"its broker epoch is {broker.epoch}, not {member.broker_epoch}"
    if not directory_online(broker, partition, member.node_id):
        return "its directory is offline"
    if broker.read_only and member.node_id not in partition.isr:
        return "it cannot write to its disk"
    return None
