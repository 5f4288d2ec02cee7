"""ConsumerGroupHeartbeat, versions 0-1: a member joins (epoch 0), continues, or leaves (-1, temporarily -2).

A heartbeat contains the partitions the member owns and, if changed, its subscription; the reply
contains its assignment, null if unchanged. Calls update.py, and fencing.py for members that leave.
Refuses: InvalidRequest, UnsupportedAssignor, GroupIdNotFound, GroupMaxSizeReached, UnknownMemberId,
FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId, InvalidRegularExpression.
"""

from base64 import urlsafe_b64encode
from dataclasses import replace
from uuid import UUID

from penstock.groups.consumer.assignors import ASSIGNORS, Assignment
from penstock.groups.consumer.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    ConsumerSettings,
    session_timer,
)
from penstock.groups.consumer.errors import FencedMemberEpoch, UnreleasedInstanceId, UnsupportedAssignor
from penstock.groups.consumer.fencing import cancel_timers, fence
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import NO_PARTITIONS, ConsumerMember, Epochs, with_epochs, without_epochs
from penstock.groups.consumer.update import RegexChange, Update
from penstock.groups.errors import FencedInstanceId, GroupMaxSizeReached, UnknownMemberId
from penstock.model.errors import InvalidRequest

_CLIENT_GENERATES_ID = 1
"""From this version on the client generates the member id."""


def check(command: ConsumerGroupHeartbeat, settings: ConsumerSettings) -> None:
    """Reject a request that is invalid for any group."""
    epoch = command.member_epoch
    if command.version >= _CLIENT_GENERATES_ID or epoch > 0 or epoch == LEAVE_EPOCH:
        _check_text(command.member_id, "MemberId can't be empty.")
    _check_text(command.group_id, "GroupId can't be empty.")
    _check_text(command.instance_id, "InstanceId can't be empty.")
    _check_text(command.rack_id, "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        if command.rebalance_timeout_ms == -1:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if command.topic_partitions is None or command.topic_partitions:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if command.subscribed_topic_names is None and command.subscribed_topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH:
        if command.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    assignor = command.server_assignor
    if assignor is not None and (assignor not in settings.assignors or assignor not in ASSIGNORS):
        raise UnsupportedAssignor(
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(settings.assignors)}."
        )


def _check_text(text: str | None, message: str) -> None:
    if text is not None and not text.strip():
        raise InvalidRequest(message)


# -- joining and continuing -----------------------------------------------------------------


def heartbeat(update: Update, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatReply:
    check_size(update, command.member_id, command.instance_id)
    old = _find(update, command, command.member_id or kafka_id(command.fresh_id))
    new = _changed(old, command)
    has_new_names = update.write_subscription(old, new)
    regex = update.update_regex(old, new, command.describable)
    must_bump = has_new_names or regex is RegexChange.RESOLVED or update.was_rebalancing
    epoch = update.group.epoch
    if must_bump or update.topics_changed:
        epoch = update.update_epoch(old, new, must_bump=must_bump)
    after = update.reconcile(
        new,
        update.update_target(epoch, old, new),
        has_new_subscription=has_new_names or regex is not RegexChange.NONE,
        owned=command.topic_partitions,
    )
    update.turn.set_timer(session_timer(update.group.id, after.id), update.settings.session_timeout_ms)
    is_shown = command.member_epoch == JOIN_EPOCH or _is_full(command) or after.assigned != old.assigned
    return ConsumerGroupHeartbeatReply(
        member_id=after.id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=update.settings.heartbeat_interval_ms,
        assignment=without_epochs(after.assigned) if is_shown else None,
    )


def check_size(update: Update, member_id: str, instance_id: str | None) -> None:
    group = update.group
    if instance_id in group.instances or member_id in group.members:
        return
    if len(group.members) >= update.settings.size_max:
        raise GroupMaxSizeReached(
            f"The consumer group has reached its maximum capacity of {update.settings.size_max} members."
        )


def kafka_id(fresh: UUID) -> str:
    """Encode a random id as Kafka does."""
    return urlsafe_b64encode(fresh.bytes).rstrip(b"=").decode()


def _is_full(command: ConsumerGroupHeartbeat) -> bool:
    """Return whether the member sent all fields, as when it joins or after an error; the reply is then full too."""
    has_subscription = command.subscribed_topic_names is not None or command.subscribed_topic_regex is not None
    return command.rebalance_timeout_ms != -1 and has_subscription and command.topic_partitions is not None


def _find(update: Update, command: ConsumerGroupHeartbeat, member_id: str) -> ConsumerMember:
    """Return the member as it is, or a new one."""
    group, is_joining = update.group, command.member_epoch == JOIN_EPOCH
    if command.instance_id is not None:
        return _find_static(update, command, member_id, command.instance_id)
    if is_joining:
        return group.members.get(member_id) or ConsumerMember(id=member_id)
    member = group.member(member_id)
    _check_epoch(member, command.member_epoch, command.topic_partitions)
    return member


def _find_static(update: Update, command: ConsumerGroupHeartbeat, member_id: str, instance_id: str) -> ConsumerMember:
    group = update.group
    current = group.static_member(instance_id)
    if command.member_epoch != JOIN_EPOCH:
        current = known_instance(group, member_id, instance_id)
        _check_epoch(current, command.member_epoch, command.topic_partitions)
        return current
    if current is None:
        return group.members.get(member_id) or ConsumerMember(id=member_id)
    # A member that switches from the classic protocol cannot announce that it leaves.
    if current.classic is None and current.epoch != STATIC_LEAVE_EPOCH:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {current.id} member."
        )
    cancel_timers(update, current.id)
    return update.replace_static(current, member_id)


def known_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member; raise if the instance id is unknown or now belongs to another member."""
    current = group.static_member(instance_id)
    if current is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if current.id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {current.id}."
        )
    return current


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    if epoch == member.epoch:
        return
    # The reply with the new epoch may have been lost. Accept the old one if the member owns only what it was assigned.
    if epoch == member.previous_epoch and epoch < member.epoch and _is_within(owned, member.assigned):
        return
    word = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _is_within(owned: Assignment | None, assigned: Epochs) -> bool:
    if owned is None:
        return False
    return all(topic in assigned and partitions <= assigned[topic].keys() for topic, partitions in owned.items())


def _changed(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> ConsumerMember:
    """Return the member with the fields of the request; the same object if nothing has changed."""
    names = command.subscribed_topic_names
    requested = (
        member.instance_id if command.instance_id is None else command.instance_id,
        member.rack_id if command.rack_id is None else command.rack_id,
        member.rebalance_timeout_ms if command.rebalance_timeout_ms == -1 else command.rebalance_timeout_ms,
        member.server_assignor if command.server_assignor is None else command.server_assignor,
        member.topic_names if names is None else frozenset(names),
        member.topic_regex if command.subscribed_topic_regex is None else command.subscribed_topic_regex,
        command.client_id,
        command.client_host,
        None,
    )
    current = (
        member.instance_id,
        member.rack_id,
        member.rebalance_timeout_ms,
        member.server_assignor,
        member.topic_names,
        member.topic_regex,
        member.client_id,
        member.client_host,
        member.classic,
    )
    if requested == current:
        return member
    instance_id, rack_id, timeout_ms, assignor, topic_names, regex, client_id, client_host, classic = requested
    return replace(
        member,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=timeout_ms,
        server_assignor=assignor,
        topic_names=topic_names,
        topic_regex=regex,
        client_id=client_id,
        client_host=client_host,
        classic=classic,
    )


# -- leaving ---------------------------------------------------------------------------------


def leave(update: Update, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatReply:
    group = update.group
    if command.instance_id is None:
        member = group.member(command.member_id)
    else:
        member = known_instance(group, command.member_id, command.instance_id)
        if command.member_epoch == STATIC_LEAVE_EPOCH:
            return _leave_temporarily(update, member)
    fence(update, [member])
    return ConsumerGroupHeartbeatReply(member_id=command.member_id, member_epoch=command.member_epoch)


def _leave_temporarily(update: Update, member: ConsumerMember) -> ConsumerGroupHeartbeatReply:
    """Let a static member restart: it keeps its partitions until its session expires."""
    # The partitions get epoch 0, so that the next member of the instance may commit from its first epoch on.
    left = replace(
        member,
        epoch=STATIC_LEAVE_EPOCH,
        assigned=with_epochs(without_epochs(member.assigned), 0),
        revoking=NO_PARTITIONS,
    )
    update.turn.write(left.assignment_record(update.group.id))
    return ConsumerGroupHeartbeatReply(member_id=member.id, member_epoch=STATIC_LEAVE_EPOCH)
