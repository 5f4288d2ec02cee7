"""Decisions on AlterPartition, a leader's request to change the ISR of its partitions.

Pure; the table of checks is in docs/internals/controller.md. A change may complete a reassignment, which may
move leadership away from the sender. Calls leaders.py. Refuses: StaleBrokerEpoch for all; per partition
UnknownTopicId, UnknownTopicOrPartition, NotController, FencedLeaderEpoch, InvalidUpdateVersion, InvalidRequest,
IneligibleReplica, NewLeaderElected (the change is committed nevertheless).
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
    """A member of the requested ISR, with the broker epoch of its fetches, or -1 if that is unknown."""

    node_id: NodeId
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """A leader's request for one partition, and the epochs it is based on."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    leader_recovery_state: int = RECOVERED


def decide_alter_partition(
    image: Image, node_id: NodeId, broker_epoch: int, changes: Sequence[IsrChange], rules: Rules
) -> ControllerDecision[tuple[PartitionImage | Refusal, ...]]:
    """Decide on each partition; the reply has its new state, or the error."""
    check_broker_epoch(image, node_id, broker_epoch)
    records: list[MetadataRecord] = []
    outcomes: list[PartitionImage | Refusal] = []
    seen: set[tuple[UUID, int]] = set()
    for request in changes:
        try:
            if (request.topic_id, request.partition) in seen:
                raise InvalidRequest("The partition is named twice.")
            seen.add((request.topic_id, request.partition))
            outcomes.append(_alter(image, node_id, request, rules, records))
        except Refusal as refusal:
            outcomes.append(refusal)
    return ControllerDecision(records, tuple(outcomes))


def _alter(
    image: Image, node_id: NodeId, request: IsrChange, rules: Rules, records: list[MetadataRecord]
) -> PartitionImage:
    topic = image.topics_by_id.get(request.topic_id)
    if topic is None:
        raise UnknownTopicId
    if not 0 <= request.partition < len(topic.partitions):
        raise UnknownTopicOrPartition
    before = topic.partitions[request.partition]
    _check_epochs(before, node_id, request)
    _check_members(image, before, node_id, request)
    isr = tuple(member.node_id for member in request.isr)
    wanted = replace(before, isr=isr, leader_recovery_state=_recovery_state(before, isr, request))
    return _settled(image, topic, request.partition, wanted, before, node_id, rules, records)


def _recovery_state(before: PartitionImage, isr: Sequence[NodeId], request: IsrChange) -> int:
    """Return RECOVERING until every replica has joined, as it allows a replica to remove committed records."""
    is_known_everywhere = all(node_id in isr for node_id in before.replicas)
    if before.leader_recovery_state == RECOVERING and not is_known_everywhere:
        return RECOVERING
    return request.leader_recovery_state


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
        # The leader change goes to a second record: joining and leading in one would look like an unclean election.
        # (A completed reassignment is recognized by its change of replicas.)
        joining = change(topic.id, index, before, replace(before, isr=wanted.isr))
        assert joining is not None, "the ISR must have a new member"
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


def _check_epochs(partition: PartitionImage, node_id: NodeId, request: IsrChange) -> None:
    # A leader with newer epochs has learned them from a newer controller.
    if request.leader_epoch > partition.leader_epoch or request.partition_epoch > partition.partition_epoch:
        raise NotController
    if request.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch
    if partition.leader != node_id:
        raise InvalidRequest(f"Node {node_id} does not lead the partition.")
    if request.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"The partition is at epoch {partition.partition_epoch}, not at {request.partition_epoch}."
        )


def _check_members(image: Image, partition: PartitionImage, node_id: NodeId, request: IsrChange) -> None:
    members = [member.node_id for member in request.isr]
    if len(dict.fromkeys(members)) != len(members) or any(each not in partition.replicas for each in members):
        raise InvalidRequest(f"The ISR {members} is not a valid subset of the replicas {list(partition.replicas)}.")
    if node_id not in members:
        raise InvalidRequest("The ISR must include the leader.")
    if request.leader_recovery_state == RECOVERING:
        if len(members) > 1:
            raise InvalidRequest("The ISR of a recovering leader must have no other member.")
        if partition.leader_recovery_state == RECOVERED:
            raise InvalidRequest("A leader that has recovered cannot be recovering again.")
    for member in request.isr:
        problem = _ineligible(image, partition, member)
        if problem is not None:
            raise IneligibleReplica(f"Node {member.node_id} cannot join the ISR: {problem}.")


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
