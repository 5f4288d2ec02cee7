"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of the classic protocol.

Each function takes the current group, answers or parks the request in the turn, and returns
the changed group, or None if nothing changes. Calls rebalance.py for the phases.
Every refusal is a reply with Kafka's code; see docs/internals/groups.md for the table.
"""

from dataclasses import replace
from typing import Final

from penstock.coordinator.decision import NO_TICKET, Ticket
from penstock.groups.classic import rebalance
from penstock.groups.classic.group import ClassicGroup, ClassicMember, State
from penstock.groups.commands import (
    NO_MEMBER_ID,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    LeavingMember,
    SyncGroup,
    SyncReply,
)
from penstock.groups.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.groups.records import GroupMetadataKey, GroupRecord
from penstock.groups.turn import SESSION, TimerKey, Turn
from penstock.model.errors import NO_ERROR, Refusal

NAME_LENGTH_MAX: Final = 4096

# -- JoinGroup -----------------------------------------------------------------------------


def join(group: ClassicGroup | None, command: JoinGroup, turn: Turn) -> ClassicGroup | None:
    error = _request_error(group, command, turn)
    if error == NO_ERROR and group is not None and not _has_room(group, command.member_id, turn.settings.size_max):
        return _reject_member(group.copy(), command.member_id, turn)
    draft = ClassicGroup(command.group_id, state_timestamp=turn.now) if group is None else group.copy()
    error = error or _membership_error(draft, command)
    if error != NO_ERROR:
        turn.answer(JoinReply(error=error, member_id=command.member_id))
        return None
    if group is None:
        # Logged from its first member on, so that a restart does not lose a group that has been listed.
        turn.write(GroupRecord(GroupMetadataKey(draft.id), draft.to_value()))
    if not command.member_id:
        _join_new(draft, command, turn)
    elif command.member_id in draft.pending:
        _add(draft, command, command.member_id, turn)
    else:
        _rejoin(draft, command, draft.members[command.member_id], turn)
    return draft


def _request_error(group: ClassicGroup | None, command: JoinGroup, turn: Turn) -> int:
    if not command.group_id:
        return InvalidGroupId.code
    if not _is_session_allowed(command, turn):
        return InvalidSessionTimeout.code
    return UnknownMemberId.code if group is None and command.member_id else NO_ERROR


def _is_session_allowed(command: JoinGroup, turn: Turn) -> bool:
    return turn.settings.session_timeout_ms_min <= command.session_timeout_ms <= turn.settings.session_timeout_ms_max


def refuse_join(command: JoinGroup, turn: Turn) -> None:
    """Answer a JoinGroup to a group whose members do not use the classic protocol."""
    error = InconsistentGroupProtocol if _is_session_allowed(command, turn) else InvalidSessionTimeout
    turn.answer(JoinReply(error=error.code, member_id=NO_MEMBER_ID))


def _membership_error(group: ClassicGroup, command: JoinGroup) -> int:
    if not group.speaks(command.protocol_type, command.protocols):
        return InconsistentGroupProtocol.code
    if command.member_id in group.pending:
        # The coordinator never requires a static member to join with a given id, so this request is invalid.
        return NO_ERROR if command.instance_id is None else UnknownMemberId.code
    if command.member_id:
        try:
            group.check_member(command.member_id, command.instance_id)
        except Refusal as refusal:
            return refusal.code
    return NO_ERROR


def _has_room(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    if group.state is State.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING:
        # Only waiting members count: if group.max.size was lowered, the last members to rejoin are rejected.
        return (member is not None and member.awaits_join) or group.awaiting_join_count < size_max
    return member is not None or len(group.members) < size_max


def _reject_member(group: ClassicGroup, member_id: str, turn: Turn) -> ClassicGroup:
    turn.answer(JoinReply(error=GroupMaxSizeReached.code, member_id=NO_MEMBER_ID))
    if member_id in group.members:
        rebalance.drop_member(group, member_id, turn)
    elif member_id in group.pending:
        group.pending -= {member_id}
        turn.cancel_timer(TimerKey(SESSION, group.id, member_id))
    rebalance.complete_if_all_joined(group, turn)
    return group


def _join_new(group: ClassicGroup, command: JoinGroup, turn: Turn) -> None:
    instance_id = command.instance_id
    name = command.client_id if instance_id is None else instance_id
    # As in Kafka, but long names are cut so that the whole id fits into a string.
    member_id = f"{name[:NAME_LENGTH_MAX]}-{command.fresh_id}"
    if instance_id is not None and instance_id in group.instances:
        _replace_static(group, command, group.instances[instance_id], member_id, turn)
    elif instance_id is None and command.must_know_member_id:
        group.pending |= {member_id}
        turn.set_timer(TimerKey(SESSION, group.id, member_id), command.session_timeout_ms)
        turn.answer(JoinReply(error=MemberIdRequired.code, member_id=member_id))
    else:
        _add(group, command, member_id, turn)


def _add(group: ClassicGroup, command: JoinGroup, member_id: str, turn: Turn) -> None:
    if not group.members:
        group.protocol_type = command.protocol_type
    group.add(
        ClassicMember(
            id=member_id,
            instance_id=command.instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            rebalance_timeout_ms=_rebalance_timeout(command),
            session_timeout_ms=command.session_timeout_ms,
            protocols=command.protocols,
            is_new=True,
            join_ticket=turn.ticket,
        )
    )
    group.has_new_member = True
    # A client that disconnects and returns as a new member leaves this one waiting; only this timer removes it.
    turn.set_timer(TimerKey(SESSION, group.id, member_id), turn.settings.new_member_join_timeout_ms)
    rebalance.rebalance_or_complete(group, turn)


def _rejoin(group: ClassicGroup, command: JoinGroup, member: ClassicMember, turn: Turn) -> None:
    is_leader = member.id == group.leader
    is_same = member.protocols == command.protocols
    if group.state is State.COMPLETING and is_same:
        # The member may not have received the reply of this generation.
        turn.answer(rebalance.joined(group, member, members=group.joined_members() if is_leader else ()))
    elif group.state is State.STABLE and is_same and not is_leader:
        turn.answer(rebalance.joined(group, member))
    else:
        # The leader of a stable group joins again because it has seen a change that the subscriptions
        # do not show, for example of the number of partitions.
        _update(group, command, member, turn)
        rebalance.rebalance_or_complete(group, turn)


def _update(group: ClassicGroup, command: JoinGroup, member: ClassicMember, turn: Turn) -> ClassicMember:
    # A second request of the same member: the connection of the first one is gone.
    turn.reply(member.join_ticket, JoinReply(error=RebalanceInProgress.code, member_id=member.id))
    updated = replace(
        member,
        protocols=command.protocols,
        rebalance_timeout_ms=_rebalance_timeout(command),
        session_timeout_ms=command.session_timeout_ms,
        join_ticket=turn.ticket,
    )
    group.update(updated)
    return updated


def _rebalance_timeout(command: JoinGroup) -> int:
    return command.session_timeout_ms if command.rebalance_timeout_ms < 0 else command.rebalance_timeout_ms


def _replace_static(group: ClassicGroup, command: JoinGroup, old_id: str, new_id: str, turn: Turn) -> None:
    """Replace a returning static instance's old member id with the new one, which fences the old one."""
    old = group.members[old_id]
    old_leader = group.leader
    turn.reply(old.join_ticket, JoinReply(error=FencedInstanceId.code, member_id=old_id))
    turn.reply(old.sync_ticket, SyncReply(error=FencedInstanceId.code))
    turn.cancel_timer(TimerKey(SESSION, group.id, old_id))
    member = _update(group, command, group.rename(old_id, new_id), turn)
    rebalance.keep_session(group, member, turn)
    if group.state is State.STABLE and group.choose_protocol() == group.protocol_name:
        _keep_assignment(group, command, member, old_leader, turn)
    else:
        # In CompletingRebalance too, because the leader is computing an assignment for the old id.
        rebalance.rebalance_or_complete(group, turn)


def _keep_assignment(
    group: ClassicGroup, command: JoinGroup, member: ClassicMember, old_leader: str | None, turn: Turn
) -> None:
    """Keep the assignment without a rebalance, and write the new member id to the log."""
    group.update(replace(member, join_ticket=NO_TICKET))
    group.update_subscribed()
    turn.write(GroupRecord(GroupMetadataKey(group.id), group.to_value()))
    if not command.can_skip_assignment:
        # An older client would compute an assignment if it saw itself as leader, so it is given its old id as leader.
        turn.answer(rebalance.joined(group, member, leader=old_leader))
    elif member.id == group.leader:
        turn.answer(rebalance.joined(group, member, members=group.joined_members(), skip_assignment=True))
    else:
        turn.answer(rebalance.joined(group, member))


# -- SyncGroup -----------------------------------------------------------------------------


def sync(group: ClassicGroup | None, command: SyncGroup, turn: Turn) -> ClassicGroup | None:
    error = _sync_error(group, command)
    if group is None or error != NO_ERROR:
        turn.answer(SyncReply(error=error))
        return None
    draft = group.copy()
    rebalance.note_sync(draft, command.member_id, turn)
    member = draft.members[command.member_id]
    if draft.state is State.STABLE:
        turn.answer(rebalance.synced(draft, member.assignment))
        return draft
    _park_sync(draft, member, turn.ticket, turn)
    if member.id == draft.leader:
        rebalance.assign(draft, dict(command.assignments), turn)
    return draft


def _sync_error(group: ClassicGroup | None, command: SyncGroup) -> int:
    if not command.group_id:
        return InvalidGroupId.code
    if group is None:
        return UnknownMemberId.code
    try:
        group.check_member(command.member_id, command.instance_id)
    except Refusal as refusal:
        return refusal.code
    if command.generation != group.generation:
        return IllegalGeneration.code
    if command.protocol_type not in (None, group.protocol_type) or (
        group.protocol_name is not None and command.protocol_name not in (None, group.protocol_name)
    ):
        return InconsistentGroupProtocol.code
    return RebalanceInProgress.code if group.state is State.PREPARING else NO_ERROR


def _park_sync(group: ClassicGroup, member: ClassicMember, ticket: Ticket, turn: Turn) -> None:
    turn.reply(member.sync_ticket, SyncReply(error=RebalanceInProgress.code))
    group.update(replace(member, sync_ticket=ticket))


# -- Heartbeat -----------------------------------------------------------------------------


def heartbeat(group: ClassicGroup | None, command: Heartbeat, turn: Turn) -> None:
    """Extend the session. Nothing else changes, so no draft is made."""
    turn.answer(HeartbeatReply(_heartbeat_error(group, command, turn)))


def _heartbeat_error(group: ClassicGroup | None, command: Heartbeat, turn: Turn) -> int:
    if not command.group_id:
        return InvalidGroupId.code
    if group is None:
        return UnknownMemberId.code
    try:
        group.check_member(command.member_id, command.instance_id)
    except Refusal as refusal:
        return refusal.code
    if command.generation != group.generation:
        return IllegalGeneration.code
    rebalance.keep_session(group, group.members[command.member_id], turn)
    return RebalanceInProgress.code if group.state is State.PREPARING else NO_ERROR


# -- LeaveGroup ----------------------------------------------------------------------------


def leave(group: ClassicGroup | None, command: LeaveGroup, turn: Turn) -> ClassicGroup | None:
    if not command.group_id:
        turn.answer(LeaveReply(error=InvalidGroupId.code))
        return None
    if group is None:
        turn.answer(LeaveReply(errors=(UnknownMemberId.code,) * len(command.members)))
        return None
    draft = group.copy()
    errors = tuple(_leave_one(draft, leaving, turn) for leaving in command.members)
    turn.answer(LeaveReply(errors=errors))
    if NO_ERROR not in errors:
        return None
    if draft.state is State.PREPARING:
        rebalance.complete_if_all_joined(draft, turn)
    elif len(draft.members) < len(group.members):
        rebalance.prepare(draft, turn)
    return draft


def _leave_one(group: ClassicGroup, leaving: LeavingMember, turn: Turn) -> int:
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        # An administrator removes a static member, whatever its current member id.
        member_id = group.instances.get(leaving.instance_id or "", NO_MEMBER_ID)
        if member_id == NO_MEMBER_ID:
            return UnknownMemberId.code
    elif member_id in group.pending:
        group.pending -= {member_id}
        turn.cancel_timer(TimerKey(SESSION, group.id, member_id))
        return NO_ERROR
    else:
        try:
            group.check_member(member_id, leaving.instance_id)
        except Refusal as refusal:
            return refusal.code
    rebalance.drop_member(group, member_id, turn)
    return NO_ERROR
