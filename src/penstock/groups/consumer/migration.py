"""Online migration of groups (KIP-848) from the classic to the consumer protocol, and back.

A classic group becomes a consumer group when the first member of the consumer protocol joins;
classic_members.py serves the others. It becomes a classic group again when the last of those
leaves. In both directions the tombstones of the old group and the records of the new one are in one
batch, so that the group always exists. Refuses: GroupIdNotFound.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from penstock.groups.classic import rebalance
from penstock.groups.classic.group import ClassicGroup, ClassicMember, State
from penstock.groups.commands import Describable, JoinReply, SyncReply
from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.commands import (
    ConsumerSettings,
    join_timer,
    revoke_timer,
    session_timer,
    sync_timer,
)
from penstock.groups.consumer.embedded_protocol import Malformed, read_assignment, read_subscription, write_assignment
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember, target_record, with_epochs, without_epochs
from penstock.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from penstock.groups.consumer.topics import Topics
from penstock.groups.consumer.update import Update
from penstock.groups.errors import GroupIdNotFound, RebalanceInProgress
from penstock.groups.records import GroupMetadataKey, GroupRecord
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.groups.turn import JOIN, SESSION, SYNC, TimerKey, Turn

# -- classic to consumer ---------------------------------------------------------------------


def upgrade(
    classic: ClassicGroup,
    turn: Turn,
    settings: ConsumerSettings,
    topics: Topics,
    describable: Describable | None = None,
) -> ConsumerGroup:
    """Write the records of the upgrade, and return the consumer group for the join that causes it.

    The rights of the classic members are not known. Until they rejoin, they subscribe only to topics that the joining
    member may describe.
    """
    if classic.state is State.EMPTY:
        # Clients that have received a member id and not used it yet join the new group with it.
        _answer_waiting(classic, turn)
        turn.decision.records += classic.tombstones()
        return ConsumerGroup(classic.id)
    _check_upgrade(classic, settings)
    try:
        members = _to_members(classic, topics, describable)
    except Malformed as error:
        raise GroupIdNotFound(f"Cannot upgrade classic group {classic.id} to consumer group because {error}.") from None
    _answer_waiting(classic, turn)
    records = _group_records(classic, members, topics)
    group = ConsumerGroup(classic.id)
    for record in records:
        group.apply(record)
    turn.decision.records += [*classic.tombstones(), *records]
    for member in members:
        assert member.classic is not None
        turn.set_timer(session_timer(classic.id, member.id), member.classic.session_timeout_ms)
    return group


def _check_upgrade(classic: ClassicGroup, settings: ConsumerSettings) -> None:
    reason = ""
    if not settings.migration_policy.allows_upgrade:
        reason = "online upgrade is disabled"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > settings.size_max:
        reason = "the group size exceeds the consumer group maximum size"
    if reason:
        raise GroupIdNotFound(f"Cannot upgrade classic group {classic.id} to consumer group because {reason}.")


def _to_members(classic: ClassicGroup, topics: Topics, describable: Describable | None) -> list[ConsumerMember]:
    """Return all members with their owned partitions. The coming join restarts a rebalance in progress."""
    taken: set[tuple[UUID, int]] = set()
    members = []
    # Assigned partitions take precedence over those that a member only claims to own.
    for member in sorted(classic.members.values(), key=lambda member: not member.assignment):
        subscription = read_subscription(member.subscription(classic.protocol_name) or member.protocols[0][1])
        # A member has no assignment after a rebalance was abandoned, but a cooperative member still owns
        # the partitions that it reported when it joined.
        owned = read_assignment(member.assignment) if member.assignment else subscription.owned
        assigned = _not_taken(_to_ids(owned, topics), taken)
        members.append(
            ConsumerMember(
                id=member.id,
                epoch=classic.generation,
                previous_epoch=classic.generation,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id or None,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                client_id=member.client_id,
                client_host=member.client_host,
                topic_names=subscription.names(describable),
                assigned=with_epochs(assigned, classic.generation),
                classic=ClassicMemberMetadata(
                    session_timeout_ms=member.session_timeout_ms,
                    supported_protocols=tuple(
                        ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
                    ),
                ),
            )
        )
    return members


def _to_ids(assignment: dict[str, frozenset[int]], topics: Topics) -> Assignment:
    return {topic.id: partitions for name, partitions in assignment.items() if (topic := topics.by_name.get(name))}


def _not_taken(assignment: Assignment, taken: set[tuple[UUID, int]]) -> Assignment:
    """Return the partitions that no earlier member has: clients assign them, and may assign one twice."""
    remaining = {
        topic: frozenset(partition for partition in partitions if (topic, partition) not in taken)
        for topic, partitions in assignment.items()
    }
    taken.update((topic, partition) for topic, partitions in remaining.items() for partition in partitions)
    return {topic: partitions for topic, partitions in remaining.items() if partitions}


def _group_records(classic: ClassicGroup, members: list[ConsumerMember], topics: Topics) -> list[GroupRecord]:
    names = frozenset[str]().union(*(member.topic_names for member in members))
    return [
        *(member.subscription_record(classic.id) for member in members),
        GroupRecord(
            ConsumerGroupMetadataKey(classic.id),
            ConsumerGroupMetadataValue(epoch=classic.generation, metadata_hash=topics.hash_of(names)),
        ),
        *(target_record(classic.id, member.id, without_epochs(member.assigned)) for member in members),
        GroupRecord(
            ConsumerGroupTargetAssignmentMetadataKey(classic.id),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=classic.generation),
        ),
        *(member.assignment_record(classic.id) for member in members),
    ]


def _answer_waiting(classic: ClassicGroup, turn: Turn) -> None:
    """Answer waiting requests with REBALANCE_IN_PROGRESS: the members then join the consumer group."""
    for member in classic.members.values():
        turn.reply(member.join_ticket, JoinReply(error=RebalanceInProgress.code, member_id=member.id))
        turn.reply(member.sync_ticket, SyncReply(error=RebalanceInProgress.code))
    for member_id in (*classic.members, *classic.pending):
        turn.cancel_timer(TimerKey(SESSION, classic.id, member_id))
    turn.cancel_timer(TimerKey(JOIN, classic.id))
    turn.cancel_timer(TimerKey(SYNC, classic.id))


# -- consumer to classic ---------------------------------------------------------------------


def becomes_classic(update: Update, leaving: Sequence[ConsumerMember]) -> bool:
    """Return whether all remaining members use the classic protocol and the group may be downgraded."""
    group = update.group
    left_count = len(group.members) - len(leaving)
    classic_count = group.classic_count - sum(member.classic is not None for member in leaving)
    return 0 < left_count == classic_count and _may_downgrade(update, left_count)


def becomes_classic_with(update: Update, replaced: ConsumerMember) -> bool:
    """Return the same for the case that a classic member replaces this one."""
    group = update.group
    is_last = replaced.classic is None and group.classic_count == len(group.members) - 1
    return is_last and _may_downgrade(update, len(group.members))


def _may_downgrade(update: Update, member_count: int) -> bool:
    settings = update.settings
    return settings.migration_policy.allows_downgrade and member_count <= settings.classic_size_max


def downgrade(
    update: Update, *, leaving: Sequence[ConsumerMember], joining: ConsumerMember | None = None, must_rebalance: bool
) -> ClassicGroup:
    """Write the records of the downgrade, and add the classic group as a draft."""
    group, turn = update.group, update.turn
    leaving_ids = {member.id for member in leaving}
    staying = [member for member in group.members.values() if member.id not in leaving_ids]
    if joining is not None:
        staying.append(joining)
    # Members no longer wait for each other, so a rebalance is needed unless each of them has reached its target.
    must_rebalance = must_rebalance or not all(_has_target(group, member) for member in staying)
    classic = ClassicGroup(group.id, state_timestamp=turn.now)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.state = State.STABLE
    for member in staying:
        classic.add(_to_classic(member))
    classic.protocol_name = classic.choose_protocol()
    classic.update_subscribed()
    for member in staying:
        _give_assignment(classic, member, update.topics)
    value = classic.to_value()
    if must_rebalance:
        # The rebalance is not in the log. The missing leader tells the next coordinator to start it.
        value = replace(value, leader=None)
    turn.decision.records += [*group.tombstones(), GroupRecord(GroupMetadataKey(group.id), value)]
    turn.decision.drafts[group.id] = classic
    for member_id in group.members:
        for timer in (session_timer, revoke_timer, join_timer, sync_timer):
            turn.cancel_timer(timer(group.id, member_id))
    for classic_member in classic.members.values():
        rebalance.keep_session(classic, classic_member, turn)
    if must_rebalance:
        rebalance.prepare(classic, turn)
    return classic


def _has_target(group: ConsumerGroup, member: ConsumerMember) -> bool:
    target = group.target_of(member.id, member.instance_id)
    return not member.revoking and without_epochs(member.assigned) == target


def _to_classic(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only members of the classic protocol stay"
    return ClassicMember(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols),
    )


def _give_assignment(classic: ClassicGroup, member: ConsumerMember, topics: Topics) -> None:
    """Assign the member the partitions that it owns, including those being revoked, in its protocol version."""
    owned: dict[str, frozenset[int]] = {}
    for epochs in (member.assigned, member.revoking):
        for topic_id, partitions in epochs.items():
            if topic := topics.by_id.get(topic_id):
                owned[topic.name] = owned.get(topic.name, frozenset()).union(partitions)
    as_classic = classic.members[member.id]
    assignment = write_assignment(owned, like=as_classic.subscription(classic.protocol_name))
    classic.update(replace(as_classic, assignment=assignment))
