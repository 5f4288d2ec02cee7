"""ListGroups, DescribeGroups, DeleteGroups, and the removal of expired offsets and groups.

Reads every type of group through group.py; describes only classic ones.
"""

from collections.abc import Mapping

from penstock.groups import offsets as offsets_module
from penstock.groups.classic.group import ClassicGroup, ClassicMember, State
from penstock.groups.commands import (
    DeleteGroups,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    ListedGroup,
    ListGroups,
)
from penstock.groups.errors import GroupIdNotFound
from penstock.groups.group import Group
from penstock.groups.offsets import Offsets
from penstock.groups.records import GroupRecord
from penstock.groups.share.commands import SHARE_TYPE, STATE_EXISTS
from penstock.groups.share.group import ShareGroup
from penstock.groups.turn import RETENTION, TimerKey, Turn
from penstock.model.errors import NO_ERROR, Refusal

SWEEP_RECORD_COUNT_MAX = 5_000
"""A sweep that writes this many records continues in its next turn, so that it does not delay group members."""


def list_groups(groups: Mapping[str, Group], command: ListGroups, turn: Turn) -> None:
    states, types = command.states, command.types
    turn.answer(
        tuple(
            ListedGroup(group_id=group.id, protocol_type=group.protocol_type, state=group.state_name, type=group.type)
            for group in groups.values()
            if (not states or group.state_name.lower() in states) and (not types or group.type.lower() in types)
        )
    )


def describe_groups(groups: Mapping[str, Group], command: DescribeGroups, turn: Turn) -> None:
    turn.answer(tuple(_describe(groups.get(group_id), group_id) for group_id in command.group_ids))


def _describe(group: Group | None, group_id: str) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return DescribedGroup(
            error=GroupIdNotFound.code, error_message=message, group_id=group_id, state=State.DEAD.value
        )
    # Before Stable the members have not agreed on a protocol, so there is no subscription to show.
    protocol = group.protocol_name if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        state=group.state_name,
        protocol_type=group.protocol_type,
        protocol=protocol or "",
        members=tuple(_describe_member(member, protocol) for member in group.members.values()),
    )


def _describe_member(member: ClassicMember, protocol: str | None) -> DescribedMember:
    return DescribedMember(
        member_id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.subscription(protocol),
        assignment=member.assignment,
    )


def delete_groups(groups: Mapping[str, Group], offsets: Offsets, command: DeleteGroups, turn: Turn) -> None:
    turn.decision.is_atomic = False
    # The second of two equal group ids must fail, as its group is already deleted.
    remaining = dict(groups)
    turn.answer(tuple(_delete(remaining, offsets, group_id, turn) for group_id in command.group_ids))


def _delete(groups: dict[str, Group], offsets: Offsets, group_id: str, turn: Turn) -> int:
    group = groups.get(group_id)
    if group is None:
        return GroupIdNotFound.code
    try:
        group.check_delete()
    except Refusal as refusal:
        return refusal.code
    if isinstance(group, ShareGroup) and group.has_state:
        return STATE_EXISTS
    # Includes pending offsets: a commit of their transaction then has no effect.
    for key in offsets.keys_of(group_id):
        turn.write(GroupRecord(key, None))
    for tombstone in group.tombstones():
        turn.write(tombstone)
    del groups[group_id]
    return NO_ERROR


def sweep(groups: Mapping[str, Group], offsets: Offsets, turn: Turn) -> None:
    """Remove expired offsets, and groups that have neither members nor offsets."""
    turn.decision.is_atomic = False
    delay = turn.settings.offsets_retention_check_interval_ms
    for group in groups.values():
        if len(turn.decision.records) >= SWEEP_RECORD_COUNT_MAX:
            delay = 0
            break
        if group.type == SHARE_TYPE:
            # Its offsets are not committed, so nothing says since when it has not been used.
            continue
        if offsets_module.expire(offsets, group, turn) and group.is_empty:
            for tombstone in group.tombstones():
                turn.write(tombstone)
    turn.set_timer(TimerKey(RETENTION), delay)
