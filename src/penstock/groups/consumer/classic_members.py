"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A group that changes protocol online (KIP-848) has members of both. To a classic member its epoch is the
generation and the coordinator is the leader: it joins whenever its target changes and fetches its
partitions with SyncGroup. Calls update.py. When the last member of the consumer protocol is replaced, the group
becomes classic: migration.py. Refuses: the same as ../classic/requests.py, with the same codes.
"""

from dataclasses import replace

from penstock.groups.commands import (
    NO_MEMBER_ID,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    LeavingMember,
    SyncGroup,
    SyncReply,
)
from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.commands import MigrationPolicy, join_timer, session_timer, sync_timer
from penstock.groups.consumer.embedded_protocol import Malformed, Subscription, read_subscription, write_assignment
from penstock.groups.consumer.fencing import cancel_timers, fence
from penstock.groups.consumer.heartbeat import check_size, kafka_id, known_instance
from penstock.groups.consumer.member import ConsumerMember, MemberState
from penstock.groups.consumer.migration import becomes_classic_with, downgrade
from penstock.groups.consumer.records import ClassicMemberMetadata, ClassicProtocol
from penstock.groups.consumer.update import RegexChange, Update
from penstock.groups.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.model.errors import NO_ERROR, Refusal

# -- JoinGroup -------------------------------------------------------------------------------


def join(update: Update, command: JoinGroup) -> JoinReply:
    group = update.group
    if update.settings.migration_policy is MigrationPolicy.DISABLED:
        raise InconsistentGroupProtocol
    member_id = command.member_id or kafka_id(command.fresh_id)
    check_size(update, member_id, command.instance_id)
    if not group.speaks(command.protocol_type, (name for name, _ in command.protocols)):
        raise InconsistentGroupProtocol
    if command.must_know_member_id and not command.member_id and command.instance_id is None:
        return JoinReply(error=MemberIdRequired.code, member_id=member_id)
    subscription = _subscription(command)
    replaced = group.static_member(command.instance_id)
    if replaced is not None and becomes_classic_with(update, replaced):
        return _join_and_downgrade(update, command, subscription, replaced, member_id)
    old = _find(update, command, member_id)
    new = _changed(old, command, subscription)
    has_new_names = update.write_subscription(old, new)
    # A static member that switches from the consumer protocol may have subscribed with a regular expression.
    regex = update.update_regex(old, new, command.describable)
    must_bump = has_new_names or regex is not RegexChange.NONE
    epoch = group.epoch
    if must_bump or update.topics_changed:
        epoch = update.update_epoch(old, new, must_bump=must_bump)
    after = update.reconcile(
        new,
        update.update_target(epoch, old, new),
        has_new_subscription=must_bump,
        owned=_owned(update, subscription),
    )
    _watch_sync(update, command, after)
    return _joined(after.id, after.epoch, command)


def _subscription(command: JoinGroup) -> Subscription:
    """Return the subscription of the first protocol; all protocols of a member carry the same one."""
    try:
        return read_subscription(command.protocols[0][1])
    except Malformed:
        raise InconsistentGroupProtocol from None


def _owned(update: Update, subscription: Subscription) -> Assignment:
    # A client from before version 1 does not report owned partitions: it revokes all of them before it joins.
    by_name = update.topics.by_name
    return {topic.id: part for name, part in subscription.owned.items() if (topic := by_name.get(name))}


def _find(update: Update, command: JoinGroup, member_id: str) -> ConsumerMember:
    group = update.group
    if command.instance_id is None:
        return group.members.get(member_id) or ConsumerMember(id=member_id)
    if command.member_id != NO_MEMBER_ID:
        return known_instance(group, member_id, command.instance_id)
    current = group.static_member(command.instance_id)
    if current is None:
        return ConsumerMember(id=member_id)
    cancel_timers(update, current.id)
    return update.replace_static(current, member_id)


def _changed(member: ConsumerMember, command: JoinGroup, subscription: Subscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=command.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=_rebalance_timeout(command),
        topic_names=subscription.names(command.describable),
        topic_regex="",
        client_id=command.client_id,
        client_host=command.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=command.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in command.protocols
            ),
        ),
    )


def _rebalance_timeout(command: JoinGroup) -> int:
    return command.session_timeout_ms if command.rebalance_timeout_ms < 0 else command.rebalance_timeout_ms


def _watch_sync(update: Update, command: JoinGroup, member: ConsumerMember) -> None:
    """Set the timer for the SyncGroup of a member that has joined."""
    group_id, turn = update.group.id, update.turn
    cancel_timers(update, member.id)
    turn.set_timer(session_timer(group_id, member.id), command.session_timeout_ms)
    turn.set_timer(sync_timer(group_id, member.id), _rebalance_timeout(command))


def _joined(member_id: str, generation: int, command: JoinGroup) -> JoinReply:
    # No leader is named, because the coordinator itself has computed the assignment.
    return JoinReply(
        member_id=member_id,
        generation=generation,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=command.protocols[0][0],
    )


def _join_and_downgrade(
    update: Update, command: JoinGroup, subscription: Subscription, replaced: ConsumerMember, member_id: str
) -> JoinReply:
    """Replace the last member of the consumer protocol, which rejoins as a classic one, and downgrade the group."""
    group = update.group
    if command.member_id != NO_MEMBER_ID:
        known_instance(group, command.member_id, replaced.instance_id or "")
    joining = _changed(replace(replaced, id=member_id), command, subscription)
    metadata_hash = update.topics.hash_of(group.subscribed_names(without=(replaced,), including=joining))
    must_rebalance = (
        group.assignment_epoch < group.epoch
        or joining.topic_names != replaced.topic_names
        or joining.topic_regex != replaced.topic_regex
        or metadata_hash != group.metadata_hash
    )
    classic = downgrade(update, leaving=[replaced], joining=joining, must_rebalance=must_rebalance)
    return replace(_joined(member_id, classic.generation, command), protocol_name=classic.protocol_name)


# -- SyncGroup -------------------------------------------------------------------------------


def sync(update: Update, command: SyncGroup) -> SyncReply:
    member, metadata = _classic_member(update, command.member_id, command.instance_id)
    _check_generation(member, command.generation)
    protocol = metadata.supported_protocols[0]
    is_other_type = command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if is_other_type or command.protocol_name not in (None, protocol.name):
        raise InconsistentGroupProtocol
    group, turn = update.group, update.turn
    # A member that is revoking partitions has joined already and must finish the revocation first.
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _watch_rejoin(update, member)
        return SyncReply(error=RebalanceInProgress.code)
    turn.cancel_timer(sync_timer(group.id, member.id))
    turn.set_timer(session_timer(group.id, member.id), metadata.session_timeout_ms)
    named = {
        topic.name: frozenset(partitions)
        for topic_id, partitions in member.assigned.items()
        if (topic := update.topics.by_id.get(topic_id))
    }
    return SyncReply(
        protocol_type=command.protocol_type,
        protocol_name=command.protocol_name,
        assignment=write_assignment(named, like=protocol.metadata),
    )


# -- Heartbeat -------------------------------------------------------------------------------


def heartbeat(update: Update, command: Heartbeat) -> int:
    """Extend the session, and ask the member to rejoin if that lets it progress."""
    member, metadata = _classic_member(update, command.member_id, command.instance_id)
    _check_generation(member, command.generation)
    group = update.group
    update.turn.set_timer(session_timer(group.id, member.id), metadata.session_timeout_ms)
    epoch = group.epoch
    if update.topics_changed:
        epoch = update.update_epoch(member, member, must_bump=False)
    # There may be no member of the consumer protocol any more, whose heartbeats compute the target.
    target = update.update_target(epoch, member, member)
    is_free_to_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    if member.epoch < target.epoch or member.state is MemberState.UNREVOKED_PARTITIONS or is_free_to_go_on:
        _watch_rejoin(update, member)
        return RebalanceInProgress.code
    return NO_ERROR


def _watch_rejoin(update: Update, member: ConsumerMember) -> None:
    """Set the timer for a member that is asked to rejoin, unless it is already running."""
    if member.id not in update.volatile.rejoining:
        update.volatile = replace(update.volatile, rejoining=update.volatile.rejoining | {member.id})
        update.turn.set_timer(join_timer(update.group.id, member.id), member.rebalance_timeout_ms)


def _classic_member(
    update: Update, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    group = update.group
    member = group.member(member_id) if instance_id is None else known_instance(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberId(f"ConsumerMember {member.id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.epoch != generation:
        raise IllegalGeneration


# -- LeaveGroup ------------------------------------------------------------------------------


def leave(update: Update, command: LeaveGroup) -> LeaveReply:
    """Remove members of either protocol; an administrator may name only the instance id."""
    leaving: dict[str, ConsumerMember] = {}
    errors = []
    for identity in command.members:
        try:
            member = _leaving_member(update, identity)
        except Refusal as refusal:
            errors.append(refusal.code)
        else:
            leaving[member.id] = member
            errors.append(NO_ERROR)
    fence(update, list(leaving.values()))
    return LeaveReply(errors=tuple(errors))


def _leaving_member(update: Update, identity: LeavingMember) -> ConsumerMember:
    group = update.group
    if identity.instance_id is None:
        return group.member(identity.member_id)
    if identity.member_id != NO_MEMBER_ID:
        return known_instance(group, identity.member_id, identity.instance_id)
    current = group.static_member(identity.instance_id)
    if current is None:
        raise UnknownMemberId(f"Instance id {identity.instance_id} is unknown.")
    return current
