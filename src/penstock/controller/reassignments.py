"""Decisions on reassignments of partitions to other brokers.

Pure. The new replicas are added first, and the old ones removed when the new ones are in the ISR (leaders.settle), so
that committed records are never held by fewer than min ISR replicas. Refuses, per partition:
UnknownTopicOrPartition, InvalidReplicaAssignment, InvalidReplicationFactor, NoReassignmentInProgress.
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
    """The target replicas of a partition; None cancels the reassignment in progress."""

    topic: TopicName
    partition: int
    replicas: Nodes | None


def decide_reassignments(
    image: Image, reassignments: Sequence[Reassignment], *, rules: Rules, allow_factor_change: bool = True
) -> ControllerDecision[tuple[Refusal | None, ...]]:
    """Decide on each partition; None for each that begins to move, or whose reassignment is cancelled."""
    records: list[MetadataRecord] = []
    outcomes: list[Refusal | None] = []
    seen: set[tuple[TopicName, int]] = set()
    for reassignment in reassignments:
        try:
            if (reassignment.topic, reassignment.partition) in seen:
                raise InvalidReplicaAssignment("The partition is named twice.")
            seen.add((reassignment.topic, reassignment.partition))
            records.extend(_reassign(image, reassignment, rules, allow_factor_change=allow_factor_change))
        except Refusal as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append(None)
    return ControllerDecision(records, tuple(outcomes))


def _reassign(
    image: Image, reassignment: Reassignment, rules: Rules, *, allow_factor_change: bool
) -> Sequence[MetadataRecord]:
    topic = image.topics.get(reassignment.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {reassignment.topic}.")
    before = image.partition(reassignment.topic, reassignment.partition)
    if before is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {reassignment.topic}:{reassignment.partition}.")
    settings = rules.topic(image, reassignment.topic)
    if reassignment.replicas is None:
        wanted = _cancelled(reassignment, before, settings)
    else:
        _check_target(image, reassignment.replicas)
        if not allow_factor_change and len(reassignment.replicas) != len(_original(before)):
            raise InvalidReplicationFactor(
                f"The replication factor is changed from {len(_original(before))} to {len(reassignment.replicas)}"
            )
        wanted = _towards(image, before, reassignment.replicas)
    after = settle(wanted, before, living=Living(image), settings=settings)
    record = change(topic.id, reassignment.partition, before, after)
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
    """Return the replicas without those that the current reassignment adds."""
    return tuple(node_id for node_id in partition.replicas if node_id not in partition.adding_replicas)


def _towards(image: Image, before: PartitionImage, target: Nodes) -> PartitionImage:
    removing = tuple(sorted(node_id for node_id in before.replicas if node_id not in target))
    return replace(
        with_replicas(before, (*target, *removing), image),
        # A replica that an earlier reassignment adds, and that is not in the ISR yet, is still being added.
        adding_replicas=tuple(
            sorted(node_id for node_id in target if node_id not in before.replicas or node_id in before.adding_replicas)
        ),
        removing_replicas=removing,
    )


def _cancelled(reassignment: Reassignment, before: PartitionImage, settings: TopicSettings) -> PartitionImage:
    if not before.adding_replicas and not before.removing_replicas:
        raise NoReassignmentInProgress
    original = _original(before)
    if not original:
        raise InvalidReplicaAssignment("All replicas are being added: there are no original replicas to return to.")
    in_sync = tuple(node_id for node_id in before.isr if node_id in original)
    # The added replicas are deleted, so enough of the others must have everything that is committed.
    complete = {*before.isr, *before.eligible_leader_replicas} or {*before.last_known_elr}
    staying = [node_id for node_id in original if node_id in complete]
    enough = min(effective_min_isr(settings, original), len(complete))
    loses_leader = bool(before.isr) and not in_sync
    if (len(staying) < enough or loses_leader) and not settings.unclean_leader_election_enable:
        raise InvalidReplicaAssignment(
            f"The reassignment of {reassignment.topic}:{reassignment.partition} cannot be cancelled: "
            f"of the original replicas {list(original)}, only {staying} have all committed records. "
            f"Wait until {enough} do and one of them is in sync."
        )
    return replace(
        with_replicas(before, original),
        isr=in_sync,
        adding_replicas=(),
        removing_replicas=(),
    )
