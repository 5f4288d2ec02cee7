"""The two phases of a classic rebalance: members join, then they fetch the leader's assignment.

Changes a draft of the group and adds the consequences to the turn. requests.py calls it for
requests; `expire` handles timers. The waiting requests of a removed member are answered.
"""

from dataclasses import replace

from penstock.coordinator.decision import NO_TICKET
from penstock.groups.classic.group import ClassicGroup, ClassicMember, State
from penstock.groups.commands import NO_MEMBER_ID, JoinedMember, JoinReply, SyncReply
from penstock.groups.errors import RebalanceInProgress, UnknownMemberId
from penstock.groups.records import GroupMetadataKey, GroupRecord
from penstock.groups.turn import JOIN, SESSION, SYNC, TimerKey, Turn

# -- sessions ------------------------------------------------------------------------------


def session_timer(group_id: str, member: ClassicMember) -> tuple[TimerKey, int]:
    return TimerKey(SESSION, group_id, member.id), member.session_timeout_ms


def keep_session(group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
    turn.set_timer(*session_timer(group.id, member))


def drop_member(group: ClassicGroup, member_id: str, turn: Turn) -> None:
    """Remove the member and answer its waiting requests, so that it rejoins if it is alive."""
    member = group.members[member_id]
    turn.reply(member.join_ticket, JoinReply(error=UnknownMemberId.code, member_id=NO_MEMBER_ID))
    turn.reply(member.sync_ticket, SyncReply(error=UnknownMemberId.code))
    group.remove(member_id)
    turn.cancel_timer(TimerKey(SESSION, group.id, member_id))


# -- joining -------------------------------------------------------------------------------


def rebalance_or_complete(group: ClassicGroup, turn: Turn) -> None:
    """Begin a rebalance after a change that invalidates the assignment, or complete the current one if possible."""
    if group.state is State.PREPARING:
        complete_if_all_joined(group, turn)
    else:
        prepare(group, turn)


def complete_if_all_joined(group: ClassicGroup, turn: Turn) -> None:
    # The initial delay is not cut short: more members are expected to start at about the same time.
    if group.state is State.PREPARING and not group.is_initial and group.all_joined:
        complete_join(group, turn)


def prepare(group: ClassicGroup, turn: Turn) -> None:
    """Begin a rebalance: members are asked to join again."""
    if group.state is State.COMPLETING:
        _cancel_syncs(group, turn)
    group.unsynced = frozenset()
    turn.cancel_timer(TimerKey(SYNC, group.id))
    group.is_initial = group.state is State.EMPTY
    group.move_to(State.PREPARING, turn.now)
    if group.is_initial:
        delay = turn.settings.initial_rebalance_delay_ms
        group.has_new_member = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay, 0)
        turn.set_timer(TimerKey(JOIN, group.id), delay)
    elif group.all_joined:
        complete_join(group, turn)
    else:
        turn.set_timer(TimerKey(JOIN, group.id), group.rebalance_timeout_ms)


def _cancel_syncs(group: ClassicGroup, turn: Turn) -> None:
    """Fail the waiting SyncGroup requests of a generation that is abandoned without an assignment."""
    for member in list(group.members.values()):
        if member.sync_ticket != NO_TICKET:
            turn.reply(member.sync_ticket, SyncReply(error=RebalanceInProgress.code))
            keep_session(group, member, turn)
        group.update(replace(member, assignment=b"", sync_ticket=NO_TICKET))


def complete_join(group: ClassicGroup, turn: Turn) -> None:
    """End the joining phase with the members that have joined, and begin the next generation."""
    for member in list(group.members.values()):
        # A static member stays until its session expires, because it may be restarting.
        if not member.awaits_join and member.instance_id is None:
            drop_member(group, member.id, turn)
    if group.members and not group.elect_leader():
        turn.set_timer(TimerKey(JOIN, group.id), group.rebalance_timeout_ms)
        return
    turn.cancel_timer(TimerKey(JOIN, group.id))
    group.generation += 1
    group.is_initial = False
    if not group.members:
        _become_empty(group, turn)
        return
    group.protocol_name = group.choose_protocol()
    group.update_subscribed()
    group.move_to(State.COMPLETING, turn.now)
    members = group.joined_members()
    for member in list(group.members.values()):
        is_leader = member.id == group.leader
        turn.reply(member.join_ticket, joined(group, member, members=members if is_leader else ()))
        group.update(replace(member, join_ticket=NO_TICKET, is_new=False))
        keep_session(group, member, turn)
    group.unsynced = frozenset(group.members)
    turn.set_timer(TimerKey(SYNC, group.id), group.rebalance_timeout_ms)


def _become_empty(group: ClassicGroup, turn: Turn) -> None:
    group.protocol_name = None
    group.update_subscribed()
    group.move_to(State.EMPTY, turn.now)
    turn.write(GroupRecord(GroupMetadataKey(group.id), group.to_value()))


def joined(
    group: ClassicGroup,
    member: ClassicMember,
    *,
    members: tuple[JoinedMember, ...] = (),
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinReply:
    """Return the reply that describes the current generation to a member."""
    return JoinReply(
        member_id=member.id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader or group.leader or "",
        members=members,
        skip_assignment=skip_assignment,
    )


# -- syncing -------------------------------------------------------------------------------


def note_sync(group: ClassicGroup, member_id: str, turn: Turn) -> None:
    """Record that the member has fetched its assignment, and cancel the timer when all have."""
    group.unsynced -= {member_id}
    if not group.unsynced:
        turn.cancel_timer(TimerKey(SYNC, group.id))


def assign(group: ClassicGroup, assignments: dict[str, bytes], turn: Turn) -> None:
    """Write the leader's assignment. The record moves the group to Stable; replies are sent when it is committed."""
    value = group.to_value()
    kept = tuple(replace(member, assignment=assignments.get(member.member_id, b"")) for member in value.members)
    turn.write(GroupRecord(GroupMetadataKey(group.id), replace(value, members=kept, current_state_timestamp=turn.now)))
    for member in list(group.members.values()):
        if member.sync_ticket == NO_TICKET:
            continue
        turn.reply(member.sync_ticket, synced(group, assignments.get(member.id, b"")))
        group.update(replace(member, sync_ticket=NO_TICKET))
        # Its session may have expired while it waited, which is ignored at that time.
        keep_session(group, member, turn)


def synced(group: ClassicGroup, assignment: bytes) -> SyncReply:
    return SyncReply(protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment)


# -- timers --------------------------------------------------------------------------------


def expire(group: ClassicGroup, timer: TimerKey, turn: Turn) -> None:
    if timer.kind == SESSION:
        _expire_session(group, timer.member_id, turn)
    elif timer.kind == JOIN:
        _expire_join(group, turn)
    else:
        assert timer.kind == SYNC, timer
        _expire_sync(group, turn)


def _expire_session(group: ClassicGroup, member_id: str, turn: Turn) -> None:
    if member_id in group.pending:
        group.pending -= {member_id}
        if (group.state is State.PREPARING and group.members and group.all_joined) or (
            group.state is State.PREPARING and not group.members and not group.pending
        ):
            complete_join(group, turn)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member.awaits_join or member.sync_ticket != NO_TICKET
    if waits and not member.is_new:
        # It cannot send heartbeats while it waits for the coordinator. Its session continues with the reply.
        return
    drop_member(group, member_id, turn)
    if group.state is not State.PREPARING:
        prepare(group, turn)
    elif group.all_joined:
        complete_join(group, turn)


def _expire_join(group: ClassicGroup, turn: Turn) -> None:
    if group.state is not State.PREPARING:
        return
    left = group.initial_delay_left_ms
    if group.is_initial and group.has_new_member and left > 0:
        delay = min(turn.settings.initial_rebalance_delay_ms, left)
        group.has_new_member = False
        group.initial_delay_left_ms = max(left - turn.settings.initial_rebalance_delay_ms, 0)
        turn.set_timer(TimerKey(JOIN, group.id), delay)
    else:
        complete_join(group, turn)


def _expire_sync(group: ClassicGroup, turn: Turn) -> None:
    if group.state not in (State.COMPLETING, State.STABLE) or not group.unsynced:
        return
    for member_id in sorted(group.unsynced):
        drop_member(group, member_id, turn)
    prepare(group, turn)
