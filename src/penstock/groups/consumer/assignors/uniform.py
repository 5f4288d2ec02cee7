"""The `uniform` assignor: an equal number of partitions for each member, with few moves.

Balance takes precedence over stickiness: a member keeps partitions of its target up to its share, and
the remaining ones go to members below theirs. Handles members that all subscribe to the same
topics; otherwise calls uniform_mixed.py.
"""

from collections.abc import Mapping
from uuid import UUID

from penstock.groups.consumer.assignors import uniform_mixed
from penstock.groups.consumer.assignors.values import Assignment, GroupAssignment, MemberSubscription


def assign(members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> GroupAssignment:
    """Assign every partition of a subscribed topic to one of the topic's subscribers."""
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) > 1:
        return uniform_mixed.assign(members, topics)
    return _assign_shares(members, {topic: topics.get(topic, 0) for topic in sorted(next(iter(subscriptions), ()))})


def _assign_shares(members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> GroupAssignment:
    """Assign the topics to members that all subscribe to exactly these."""
    unowned = {topic: set(range(count)) for topic, count in topics.items()}
    order = sorted(members)
    least, larger_count = divmod(sum(topics.values()), len(order) or 1)
    assignment: GroupAssignment = {}
    short: list[tuple[str, int]] = []
    for index, member_id in enumerate(order):
        may_be_larger = larger_count > 0
        kept, size = _keep(members[member_id].target, unowned, least + may_be_larger)
        missing = least + may_be_larger - size
        # The larger shares go to members that already have one, as long as enough members are left for the
        # remaining ones: giving a larger share to another member would move a partition without need.
        if may_be_larger and missing > 0 and len(order) - index > larger_count:
            missing -= 1
        elif may_be_larger:
            larger_count -= 1
        assignment[member_id] = kept
        if missing > 0:
            short.append((member_id, missing))
    _distribute(assignment, short, unowned)
    return assignment


def _keep(target: Assignment, unowned: dict[UUID, set[int]], size_max: int) -> tuple[Assignment, int]:
    """Return the partitions that a member keeps and their number; remove them from the unowned ones."""
    kept: dict[UUID, frozenset[int]] = {}
    size = 0
    is_same = True
    for topic, partitions in target.items():
        free = unowned.get(topic)
        staying = partitions & free if free else frozenset()
        if len(staying) > size_max - size:
            staying = frozenset(sorted(staying)[: size_max - size])
        is_same = is_same and len(staying) == len(partitions)
        if staying and free:
            kept[topic] = staying
            free -= staying
            size += len(staying)
    return (target if is_same else kept), size


def _distribute(assignment: GroupAssignment, short: list[tuple[str, int]], unowned: dict[UUID, set[int]]) -> None:
    """Assign the unowned partitions, in order, to the members that have too few, in order."""
    waiting = iter(short)
    member_id, missing = next(waiting, ("", 0))
    for topic, free in unowned.items():
        left = sorted(free)
        start = 0
        while start < len(left):
            assert missing > 0, "the shares add up to all partitions"
            taken = left[start : start + missing]
            start += len(taken)
            given = dict(assignment[member_id])
            given[topic] = given.get(topic, frozenset()).union(taken)
            assignment[member_id] = given
            missing -= len(taken)
            if missing == 0:
                member_id, missing = next(waiting, ("", 0))
