"""The member epochs with which a member may commit, in general and for each partition.

A commit with the current epoch may contain any partition. One with an older epoch may contain partitions
that the member has owned since then (KIP-1251): the reply with the newer epoch may not have arrived yet, and
no other member can have used the partition. Refuses: IllegalGeneration to members of the classic
protocol, StaleMemberEpoch to the others.
"""

from collections.abc import Callable
from uuid import UUID

from penstock.groups.consumer.errors import StaleMemberEpoch
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.errors import IllegalGeneration
from penstock.model.errors import Refusal

CommitCheck = Callable[[UUID, int], None]
"""Takes a topic id and a partition; raises if the member may not commit it."""


def commit_check(member: ConsumerMember, generation: int) -> CommitCheck | None:
    """Check the epoch of a commit; return a check to call for each partition, or None if none is needed."""
    if generation == member.epoch:
        return None
    if generation > member.epoch:
        raise stale(member, generation)

    def check(topic: UUID, partition: int) -> None:
        given_at = member.assigned.get(topic, {}).get(partition, member.revoking.get(topic, {}).get(partition))
        if given_at is None or generation < given_at:
            raise stale(member, generation)

    return check


def stale(member: ConsumerMember, generation: int) -> Refusal:
    if member.classic is not None:
        return IllegalGeneration(f"Generation {generation} is not the member's epoch {member.epoch}.")
    return StaleMemberEpoch(f"Member epoch {generation} is not the member's current epoch {member.epoch}.")
