"""The `range` assignor: splits each topic into contiguous ranges, one for each subscriber.

Topics with the same number of partitions are split in the same way, so members with the same subscription
own the same partition numbers of each and can join them. Static members come first, ordered by
instance id: a restart, which changes the member id, moves nothing.
"""

from collections.abc import Mapping
from uuid import UUID

from penstock.groups.consumer.assignors.values import Assignment, GroupAssignment, MemberSubscription


def assign(members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> GroupAssignment:
    """Assign every partition of a subscribed topic to one of the topic's subscribers."""
    order = sorted(members, key=lambda member_id: _sort_key(member_id, members[member_id]))
    subscribers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    given: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic, takers in sorted(subscribers.items()):
        size, longer_count = divmod(topics.get(topic, 0), len(takers))
        start = 0
        for index, member_id in enumerate(takers):
            end = start + size + (index < longer_count)
            if start == end:
                break
            given[member_id][topic] = frozenset(range(start, end))
            start = end
    return {member_id: _reuse_target(members[member_id], given[member_id]) for member_id in members}


def _sort_key(member_id: str, member: MemberSubscription) -> tuple[bool, str]:
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)


def _reuse_target(member: MemberSubscription, given: dict[UUID, frozenset[int]]) -> Assignment:
    # The same object if nothing changed, so that a comparison ends immediately.
    return member.target if given == member.target else given
