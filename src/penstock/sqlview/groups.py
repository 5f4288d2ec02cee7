"""Tables of groups, members, assignments, committed offsets and lag."""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, cast
from uuid import UUID, uuid5

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup

from penstock.actions.cluster.offsets import LATEST, list_offsets
from penstock.actions.cluster_client import ClusterClient, raise_for_error
from penstock.sqlview.table import Rows
from penstock.wire.api import ApiKey

GROUP: Final = 0
# The last version with topic names instead of ids.
OFFSETS_BY_NAME: Final = 9
# Groups have a name but no id: this derives an id that is the same in every query.
_GROUP_IDS: Final = UUID("7c0a4a1c-0d9b-5f0a-9a55-6f6e2d67a8d1")

_i16 = Struct(">h").unpack_from
_i32 = Struct(">i").unpack_from

Place = tuple[str, int]


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    owned: tuple[Place, ...]


class Group(NamedTuple):
    group_id: str
    type: str
    state: str
    protocol: str
    coordinator: int
    members: tuple[GroupMember, ...]


def consumer_groups(cluster: ClusterClient) -> Rows:
    for group in _groups(cluster):
        yield str(uuid5(_GROUP_IDS, group.group_id)), group.group_id, group.protocol


def group_states(cluster: ClusterClient) -> Rows:
    for group in _groups(cluster):
        yield group.group_id, group.type, group.state, group.protocol, group.coordinator, len(group.members)


def members(cluster: ClusterClient) -> Rows:
    for group in _groups(cluster):
        for each in group.members:
            yield group.group_id, each.member_id, each.instance_id, each.client_id, each.host, len(each.owned)


def assignments(cluster: ClusterClient) -> Rows:
    """Yield every partition that a member owns or that has a committed offset."""
    for group, owners, committed in group_progress(cluster):
        for topic, partition in sorted({*owners, *committed}):
            place = (topic, partition)
            yield group.group_id, topic, partition, owners.get(place), committed.get(place)


def lag(cluster: ClusterClient) -> Rows:
    latest = list_offsets(cluster, LATEST)
    for group, owners, committed in group_progress(cluster):
        for place, offset in sorted(committed.items()):
            end = latest.get(place)
            behind = None if end is None else max(0, end - offset)
            yield group.group_id, *place, owners.get(place), offset, end, behind


def group_progress(cluster: ClusterClient) -> Iterator[tuple[Group, dict[Place, str], dict[Place, int]]]:
    for group in _groups(cluster):
        owners = {place: member.member_id for member in group.members for place in member.owned}
        yield group, owners, _committed(cluster, group)


def _committed(cluster: ClusterClient, group: Group) -> dict[Place, int]:
    requested = OffsetFetchRequestGroup(group_id=cast(Any, group.group_id), topics=None)
    request = OffsetFetchRequest(groups=(requested,), require_stable=False)
    (answer,) = cluster.send(group.coordinator, ApiKey.OFFSET_FETCH, request, newest=OFFSETS_BY_NAME).groups
    raise_for_error(answer.error_code, about=group.group_id)
    return {
        (str(topic.name), int(each.partition_index)): int(each.committed_offset)
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def _groups(cluster: ClusterClient) -> list[Group]:
    found: list[Group] = []
    for node in cluster.brokers:
        answer = cluster.send(node, ApiKey.LIST_GROUPS, ListGroupsRequest())
        raise_for_error(answer.error_code, about="the groups")
        modern = [str(each.group_id) for each in answer.groups if each.group_type.lower() == "consumer"]
        classic = [str(each.group_id) for each in answer.groups if each.group_type.lower() in ("classic", "")]
        found += _describe_modern(cluster, node, modern)
        found += _describe_classic(cluster, node, classic)
    return sorted(found)


def _describe_modern(cluster: ClusterClient, node: int, names: list[str]) -> Iterator[Group]:
    if not names:
        return
    request: Any = ConsumerGroupDescribeRequest(group_ids=cast(Any, tuple(names)), include_authorized_operations=False)
    for each in cluster.send(node, ApiKey.CONSUMER_GROUP_DESCRIBE, request).groups:
        if not each.error_code.value:
            owned = tuple(map(_modern_member, each.members))
            yield Group(str(each.group_id), "consumer", each.group_state, each.assignor_name, node, owned)


def _modern_member(member: Any) -> GroupMember:
    owned = tuple(
        (str(topic.topic_name), int(index))
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )
    return GroupMember(member.member_id, member.instance_id, member.client_id, member.client_host, owned)


def _describe_classic(cluster: ClusterClient, node: int, names: list[str]) -> Iterator[Group]:
    if not names:
        return
    request: Any = DescribeGroupsRequest(groups=cast(Any, tuple(names)), include_authorized_operations=False)
    for each in cluster.send(node, ApiKey.DESCRIBE_GROUPS, request).groups:
        if each.error_code.value:
            continue
        found = tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                owned_partitions(member.member_assignment) if each.protocol_type == "consumer" else (),
            )
            for member in each.members
        )
        yield Group(str(each.group_id), "classic", each.group_state, each.protocol_data, node, found)


def owned_partitions(assignment: bytes) -> tuple[Place, ...]:
    """Decode the assignment of a classic member: a version, then topics with their partitions."""
    owned: list[Place] = []
    try:
        (count,), position = _i32(assignment, 2), 6
        for _ in range(count):
            (size,) = _i16(assignment, position)
            topic = bytes(assignment[position + 2 : position + 2 + size]).decode()
            position += 2 + size
            (partitions,) = _i32(assignment, position)
            owned += [(topic, _i32(assignment, position + 4 + 4 * each)[0]) for each in range(partitions)]
            position += 4 + 4 * partitions
    except (StructError, UnicodeDecodeError):
        # Empty between rebalances; members of other frameworks use other formats.
        return ()
    return tuple(owned)
