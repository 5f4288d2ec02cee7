"""The target assignment of a large group: computed off the event loop, and written in parts.

A heartbeat that finds the target out of date returns an `AssignTarget` as its action. The group keeps its old target
until the last `TargetAssigned` is written, which has the new assignment epoch; members only own partitions that
no other member owns, whatever the parts that are written say. A change of the group meanwhile raises its
epoch, so another target follows. Calls the assignors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from penstock.groups.consumer.assignors import ASSIGNORS, Assignment, GroupAssignment, MemberSubscription
from penstock.groups.consumer.group import ResolvedRegex, topics_of
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.consumer.topics import Topics
from penstock.model.job import Job

MEMBERS_AT_ONCE_MAX: Final = 200
PARTITIONS_AT_ONCE_MAX: Final = 2_000
"""A heartbeat computes and writes the target of a group within these limits itself, in one or two milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignTarget:
    """The action that computes a target: the group as it was when its epoch was this."""

    group_id: str
    epoch: int
    assignor: str
    members: Mapping[str, ConsumerMember]
    targets: Mapping[str, Assignment]
    resolved: Mapping[str, ResolvedRegex]
    topics: Topics


class MemberTarget(NamedTuple):
    member_id: str
    instance_id: str | None
    """Another member may have taken its instance meanwhile."""
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssigned:
    """A part of a new target. Answered with whether it was still wanted."""

    group_id: str
    epoch: int
    targets: tuple[MemberTarget, ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class AssignmentFailed:
    """The target will not be written: the next heartbeat may compute another one."""

    group_id: str
    epoch: int


def assign(action: AssignTarget) -> GroupAssignment:
    """Return the target of every member."""
    ids: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
    subscriptions: dict[str, MemberSubscription] = {}
    topics = action.topics
    for member in action.members.values():
        key = member.topic_names, member.topic_regex
        if key not in ids:
            ids[key] = topics.ids_of(topics_of(member, action.resolved))
        subscriptions[member.id] = MemberSubscription(
            topics=ids[key],
            target=action.targets.get(member.id, {}),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
        )
    every = frozenset[UUID]().union(*ids.values())
    return ASSIGNORS[action.assignor](subscriptions, {topic: topics.by_id[topic].partition_count for topic in every})


def assigning(action: AssignTarget) -> Job[list[TargetAssigned]]:
    """Compute the parts of a new target off the event loop."""
    parts: list[TargetAssigned] = yield partial(_parts, action)
    return parts


def _parts(action: AssignTarget) -> list[TargetAssigned]:
    found = list(_split(action, assign(action)))
    return [
        TargetAssigned(group_id=action.group_id, epoch=action.epoch, targets=targets, is_last=number == len(found))
        for number, targets in enumerate(found, 1)
    ]


def _split(action: AssignTarget, assignment: GroupAssignment) -> Iterator[tuple[MemberTarget, ...]]:
    """Yield the targets that have changed, at least one part even if none has."""
    part: list[MemberTarget] = []
    partition_count = 0
    for member_id in sorted(assignment):
        target = assignment[member_id]
        before = action.targets.get(member_id)
        if before is target or before == target:
            continue
        part.append(MemberTarget(member_id, action.members[member_id].instance_id, target))
        partition_count += sum(map(len, target.values()))
        if len(part) >= MEMBERS_AT_ONCE_MAX or partition_count >= PARTITIONS_AT_ONCE_MAX:
            yield tuple(part)
            part, partition_count = [], 0
    yield tuple(part)
