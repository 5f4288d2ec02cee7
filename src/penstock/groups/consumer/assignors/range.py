"""The `range` assignor: each topic is cut into runs of partitions, one run for each subscriber.

Topics with as many partitions are cut alike, so members that share a subscription own the
same numbers of every such topic and can join them. Static members come first and in the
order of their instance ids: a restart, which changes the member id, moves nothing.
"""

from collections.abc import Mapping
from uuid import UUID

from penstock.groups.consumer.assignors.values import Assignment, GroupAssignment, MemberSubscription


def assign(members: Mapping[str, MemberSubscription], topics: Mapping[UUID, int]) -> GroupAssignment:
    """Give every partition of a subscribed topic to one of the topic's subscribers."""
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
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
    return {member_id: _settled(members[member_id], given[member_id]) for member_id in members}


def _place(member_id: str, member: MemberSubscription) -> tuple[bool, str]:
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)


def _settled(member: MemberSubscription, given: dict[UUID, frozenset[int]]) -> Assignment:
    # The very object if nothing changed: whoever compares is done at once.
    return member.target if given == member.target else given
