"""One step of a member towards its target assignment: revoke first, assign afterwards.

Pure: takes a member and returns it after the step; the same object if there is nothing to do.
A partition is assigned only when it has no owner, and released only when its owner no longer
reports it, so that it never has two owners. member.py explains the states.
Refuses: FencedMemberEpoch to a member in a state that this release does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.errors import FencedMemberEpoch
from penstock.groups.consumer.member import NO_PARTITIONS, ConsumerMember, Epochs, MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The inputs of a step, except the member."""

    target_epoch: int
    target: Assignment
    subscribed: frozenset[UUID]
    """The topics that the member subscribes to now; the target may be based on older ones."""
    has_new_subscription: bool
    owned: Assignment | None
    """The partitions that the member reports; None if it did not report any."""
    owners: Mapping[UUID, Mapping[int, str]]

    def reports_any(self, partitions: Epochs) -> bool:
        """Return whether the member may still own one of the partitions."""
        if self.owned is None:
            return True
        return any(not numbers.isdisjoint(partitions.get(topic, ())) for topic, numbers in self.owned.items())


def reconcile(member: ConsumerMember, step: Step) -> ConsumerMember:
    if member.state is MemberState.STABLE:
        if member.epoch != step.target_epoch:
            return _advance(member, step)
        return _drop_unsubscribed(member, step) if step.has_new_subscription else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if not step.reports_any(member.revoking):
            return _advance(member, step)
        return _drop_unsubscribed(member, step) if step.has_new_subscription else member
    if member.state is MemberState.UNKNOWN:
        if step.owned is None or step.owned:
            raise FencedMemberEpoch(
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        return _advance(member, step, epoch=step.target_epoch)
    return _advance(member, step)


def _drop_unsubscribed(member: ConsumerMember, step: Step) -> ConsumerMember:
    """Keep the epoch, but revoke partitions of topics that the member no longer subscribes to."""
    dropped = {topic: epochs for topic, epochs in member.assigned.items() if topic not in step.subscribed}
    if not dropped:
        return member
    kept = {topic: epochs for topic, epochs in member.assigned.items() if topic in step.subscribed}
    revoking = dict(member.revoking)
    for topic, epochs in dropped.items():
        revoking[topic] = {**revoking.get(topic, {}), **epochs}
    if step.reports_any(revoking):
        return member.at(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return replace(member, previous_epoch=member.epoch, assigned=kept)


def _advance(member: ConsumerMember, step: Step, *, epoch: int | None = None) -> ConsumerMember:
    """Move the member as close to its target as the other members allow."""
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    taken: dict[UUID, list[int]] = {}
    is_waiting = False
    for topic in member.assigned.keys() | step.target.keys():
        target = step.target.get(topic, frozenset()) if topic in step.subscribed else frozenset()
        current = member.assigned.get(topic, {})
        owners = step.owners.get(topic, {})
        own = member.revoking.get(topic, {})
        for partition, given_at in current.items():
            part = assigned if partition in target else revoking
            part.setdefault(topic, {})[partition] = given_at
        for partition in target.difference(current):
            # The member may take back a partition that it was revoking itself.
            if partition in owners and partition not in own:
                is_waiting = True
            else:
                taken.setdefault(topic, []).append(partition)
    if revoking and step.reports_any(revoking):
        stay = member.epoch if epoch is None else epoch
        return member.at(stay, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    for topic, partitions in taken.items():
        assigned.setdefault(topic, {}).update(dict.fromkeys(partitions, step.target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return member.at(step.target_epoch, state, assigned, NO_PARTITIONS)
