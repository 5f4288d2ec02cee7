"""Decides on reassignments: which brokers are to hold a partition, in place of those who do.

Pure. The new replicas are added first and the old ones leave when the new ones are in sync (leaders.settle), so what
is committed is never held by fewer than min ISR. Refuses, per partition: UnknownTopicOrPartition,
InvalidReplicaAssignment, InvalidReplicationFactor, NoReassignmentInProgress.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.config.settings import TopicSettings
from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import (
    Living,
    Nodes,
    Rules,
    change,
    effective_min_isr,
    settle,
    with_replicas,
)
from penstock.metadata.image import Image, PartitionImage
from penstock.metadata.records import MetadataRecord
from penstock.model.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.model.ids import TopicName


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Where a partition is to be; None cancels what is under way."""

    topic: TopicName
    partition: int
    replicas: Nodes | None


def decide_reassignments(
    image: Image, wishes: Sequence[Reassignment], *, rules: Rules, allow_factor_change: bool = True
) -> ControllerDecision[tuple[Refusal | None, ...]]:
    """Decide on each partition; None in its place means that its move begins, or that it is cancelled."""
    records: list[MetadataRecord] = []
    outcomes: list[Refusal | None] = []
    asked: set[tuple[TopicName, int]] = set()
    for wish in wishes:
        try:
            if (wish.topic, wish.partition) in asked:
                raise InvalidReplicaAssignment("The partition is named twice.")
            asked.add((wish.topic, wish.partition))
            records.extend(_reassign(image, wish, rules, allow_factor_change=allow_factor_change))
        except Refusal as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append(None)
    return ControllerDecision(records, tuple(outcomes))


def _reassign(image: Image, wish: Reassignment, rules: Rules, *, allow_factor_change: bool) -> Sequence[MetadataRecord]:
    topic = image.topics.get(wish.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {wish.topic}.")
    before = image.partition(wish.topic, wish.partition)
    if before is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {wish.topic}:{wish.partition}.")
    settings = rules.topic(image, wish.topic)
    if wish.replicas is None:
        wanted = _cancelled(wish, before, settings)
    else:
        _check_target(image, wish.replicas)
        if not allow_factor_change and len(wish.replicas) != len(_original(before)):
            raise InvalidReplicationFactor(
                f"The replication factor is changed from {len(_original(before))} to {len(wish.replicas)}"
            )
        wanted = _towards(image, before, wish.replicas)
    after = settle(wanted, before, living=Living(image), settings=settings)
    record = change(topic.id, wish.partition, before, after)
    return () if record is None else (record,)


def _check_target(image: Image, replicas: Nodes) -> None:
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for node_id in replicas:
        if node_id not in image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if replicas.count(node_id) > 1:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {node_id} more than once."
            )


def _original(partition: PartitionImage) -> Nodes:
    """The replicas as they were before the reassignment that is under way, if one is."""
    return tuple(node_id for node_id in partition.replicas if node_id not in partition.adding_replicas)


def _towards(image: Image, before: PartitionImage, target: Nodes) -> PartitionImage:
    removing = tuple(sorted(node_id for node_id in before.replicas if node_id not in target))
    return replace(
        with_replicas(before, (*target, *removing), image),
        # Who is being added by an earlier wish and is not in sync yet is still waited for.
        adding_replicas=tuple(
            sorted(node_id for node_id in target if node_id not in before.replicas or node_id in before.adding_replicas)
        ),
        removing_replicas=removing,
    )


def _cancelled(wish: Reassignment, before: PartitionImage, settings: TopicSettings) -> PartitionImage:
    if not before.adding_replicas and not before.removing_replicas:
        raise NoReassignmentInProgress
    original = _original(before)
    in_sync = tuple(node_id for node_id in before.isr if node_id in original)
    enough = min(effective_min_isr(settings, original), len(before.isr))
    if len(in_sync) < enough and not settings.unclean_leader_election_enable:
        raise InvalidReplicaAssignment(
            f"The reassignment of {wish.topic}:{wish.partition} cannot be cancelled: of the replicas to go back to, "
            f"only {list(in_sync)} are in sync. Wait until {enough} of {list(original)} are."
        )
    if not original:
        raise InvalidReplicaAssignment("All replicas are being added: there is nothing to go back to.")
    return replace(
        with_replicas(before, original),
        isr=in_sync,
        adding_replicas=(),
        removing_replicas=(),
    )
