"""The assignor `simple`: every partition is assigned, and members share partitions if there are more of them.

Each partition gets `ceil(members / partitions)` members, and the numbers of partitions per member differ by at most
one. Assignments are kept as far as that allows. If the subscriptions differ, each topic is assigned for itself. Pure.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from uuid import UUID

from penstock.groups.consumer.assignors import Assignment, GroupAssignment, MemberSubscription

NAME = "simple"

TopicPartition = tuple[UUID, int]


def assign(members: Mapping[str, MemberSubscription], assignable: Mapping[UUID, frozenset[int]]) -> GroupAssignment:
    """Return the assignment of the assignable partitions to the members."""
    held: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    subscriptions = {subscription.topics for subscription in members.values()}
    if len(subscriptions) == 1:
        (topics,) = subscriptions
        _share(members, sorted(members), _partitions(topics, assignable), held)
    else:
        for topic in sorted(frozenset[UUID]().union(*subscriptions)):
            interested = [member_id for member_id in sorted(members) if topic in members[member_id].topics]
            _share(members, interested, _partitions((topic,), assignable), held)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _partitions(topics: Iterable[UUID], assignable: Mapping[UUID, frozenset[int]]) -> list[TopicPartition]:
    return [(topic, index) for topic in sorted(topics) for index in sorted(assignable.get(topic, ()))]


def _share(
    members: Mapping[str, MemberSubscription],
    member_ids: list[str],
    partitions: list[TopicPartition],
    held: dict[str, set[TopicPartition]],
) -> None:
    """Assign the partitions to the members, in addition to what these hold of other topics."""
    if not partitions or not member_ids:
        return
    sharing = -(-len(member_ids) // len(partitions))
    counts = dict.fromkeys(partitions, 0)
    current = {
        member_id: [each for each in _flat(members[member_id].target) if each in counts] for member_id in member_ids
    }
    least, more = divmod(sharing * len(partitions), len(member_ids))
    # Members that hold much keep more; among equals those with less of other topics get more.
    order = sorted(member_ids, key=lambda member_id: (-len(current[member_id]), len(held[member_id]), member_id))
    room = {member_id: least + (position < more) for position, member_id in enumerate(order)}
    for member_id in member_ids:
        for each in current[member_id]:
            if room[member_id] and counts[each] < sharing:
                _give(each, member_id, held, room, counts)
    _fill(order, sharing, held, room, counts)


def _fill(
    order: list[str],
    sharing: int,
    held: dict[str, set[TopicPartition]],
    room: dict[str, int],
    counts: dict[TopicPartition, int],
) -> None:
    """Give each member with room the partitions that have the fewest members."""
    open_partitions = [(count, each) for each, count in counts.items() if count < sharing]
    heapify(open_partitions)
    waiting = [(-room[member_id], position) for position, member_id in enumerate(order) if room[member_id]]
    heapify(waiting)
    while waiting and open_partitions:
        member_id = order[heappop(waiting)[1]]
        skipped = []
        while open_partitions and open_partitions[0][1] in held[member_id]:
            skipped.append(heappop(open_partitions))
        if open_partitions:
            count, each = heappop(open_partitions)
            _give(each, member_id, held, room, counts)
            if count + 1 < sharing:
                heappush(open_partitions, (count + 1, each))
            if room[member_id]:
                heappush(waiting, (-room[member_id], order.index(member_id)))
        for entry in skipped:
            heappush(open_partitions, entry)


def _give(
    each: TopicPartition,
    member_id: str,
    held: dict[str, set[TopicPartition]],
    room: dict[str, int],
    counts: dict[TopicPartition, int],
) -> None:
    held[member_id].add(each)
    room[member_id] -= 1
    counts[each] += 1


def _flat(assignment: Assignment) -> list[TopicPartition]:
    return [(topic, index) for topic in sorted(assignment) for index in sorted(assignment[topic])]


def _by_topic(partitions: set[TopicPartition]) -> Assignment:
    found: dict[UUID, set[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in found.items()}
