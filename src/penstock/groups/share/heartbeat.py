"""ShareGroupHeartbeat: joins, changes and leaves of members, and the assignment that follows.

Adds records to the turn and changes no state. Partitions are assigned once their state is initialized, which an action
requests. A member moves to its target immediately, because partitions may be shared. Calls assignor.py.
Refuses: InvalidRequest, GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch.
"""

from dataclasses import replace
from uuid import UUID

from penstock.groups.consumer.assignors import NOTHING, Assignment, GroupAssignment, MemberSubscription
from penstock.groups.consumer.errors import FencedMemberEpoch
from penstock.groups.consumer.topics import Topics
from penstock.groups.errors import GroupMaxSizeReached
from penstock.groups.records import GroupRecord
from penstock.groups.share import assignor
from penstock.groups.share.commands import (
    INITIALIZE_RETRY_MS,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    InitializeShareState,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatReply,
    ShareGroupSettings,
    initialize_timer,
    session_timer,
)
from penstock.groups.share.group import ShareGroup, ShareMember, united, without
from penstock.groups.share.records import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from penstock.groups.turn import Turn
from penstock.model.errors import InvalidRequest


def check(command: ShareGroupHeartbeat) -> None:
    if not command.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if not command.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if command.rack_id is not None and not command.rack_id.strip():
        raise InvalidRequest("RackId can't be empty.")
    if command.member_epoch == JOIN_EPOCH:
        if not command.subscribed_topic_names:
            raise InvalidRequest("SubscribedTopicNames must be set in first request.")
    elif command.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")


class ShareUpdate:
    """A change to one share group."""

    def __init__(self, group: ShareGroup, turn: Turn, settings: ShareGroupSettings, topics: Topics) -> None:
        self._group = group
        self._turn = turn
        self._settings = settings
        self._topics = topics

    # -- heartbeats --------------------------------------------------------------------------

    def heartbeat(self, command: ShareGroupHeartbeat) -> ShareGroupHeartbeatReply:
        group, turn = self._group, self._turn
        old = self._find(command)
        new = _changed(old, command)
        if new != old or old.id not in group.members:
            turn.write(new.subscription_record(group.id))
        epoch = self._update_epoch(old, new)
        members = {**group.members, new.id: new}
        targets, target_epoch = self._update_target(epoch, members)
        after = self._move(new, targets.get(new.id, NOTHING), target_epoch)
        if (after.epoch, after.assigned) != (old.epoch, old.assigned):
            turn.write(after.assignment_record(group.id))
        turn.set_timer(session_timer(group.id, new.id), self._settings.session_timeout_ms)
        is_initializing = self._initialize(epoch, members)
        has_news = command.member_epoch == JOIN_EPOCH or command.subscribed_topic_names is not None
        return ShareGroupHeartbeatReply(
            member_id=new.id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
            assignment=after.assigned if has_news or after.assigned != old.assigned else None,
            is_initializing=is_initializing,
        )

    def _find(self, command: ShareGroupHeartbeat) -> ShareMember:
        group = self._group
        if command.member_id not in group.members and len(group.members) >= self._settings.size_max:
            raise GroupMaxSizeReached(
                f"The share group has reached its maximum capacity of {self._settings.size_max} members."
            )
        if command.member_epoch == JOIN_EPOCH:
            return group.members.get(command.member_id) or ShareMember(id=command.member_id)
        member = group.member(command.member_id)
        _check_epoch(member, command.member_epoch)
        return member

    def leave(self, member_id: str) -> None:
        """Remove a member."""
        group, turn = self._group, self._turn
        member = group.member(member_id)
        turn.cancel_timer(session_timer(group.id, member_id))
        turn.decision.records += group.member_tombstones(member_id)
        rest = [each for each in group.members.values() if each is not member]
        turn.write(group.epoch_record(group.epoch + 1, self._topics.hash_of(_names(rest))))

    # -- the group epoch and the target ------------------------------------------------------

    def _update_epoch(self, old: ShareMember, new: ShareMember) -> int:
        group = self._group
        members = [new, *(each for each in group.members.values() if each.id != new.id)]
        metadata_hash = self._topics.hash_of(_names(members))
        is_new = old.id not in group.members
        must_bump = is_new or new.topic_names != old.topic_names or metadata_hash != group.metadata_hash
        if not must_bump and group.assignment_epoch >= group.epoch:
            # Partitions were initialized since the last assignment, or have lost their state.
            assigned: Assignment = NOTHING
            for target in group.targets.values():
                assigned = united(assigned, target)
            must_bump = self._assignable(_names(members)) != assigned
        if not must_bump:
            return group.epoch
        self._turn.write(group.epoch_record(group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _assignable(self, names: frozenset[str]) -> Assignment:
        """Return the partitions of the topics that are initialized and exist."""
        found = {}
        for topic_id, partitions in self._group.state.initialized.items():
            topic = self._topics.by_id.get(topic_id)
            if topic is not None and topic.name in names and partitions:
                found[topic_id] = partitions
        return found

    def _update_target(self, epoch: int, members: dict[str, ShareMember]) -> tuple[GroupAssignment, int]:
        group, now = self._group, self._turn.now
        if group.assignment_epoch >= epoch or not self._may_assign:
            return group.targets, group.assignment_epoch
        ids: dict[frozenset[str], frozenset[UUID]] = {}
        for member in members.values():
            if member.topic_names not in ids:
                ids[member.topic_names] = self._topics.ids_of(member.topic_names)
        assignable = self._assignable(_names(list(members.values())))
        targets = assignor.assign(
            {
                member.id: MemberSubscription(
                    topics=ids[member.topic_names], target=group.targets.get(member.id, NOTHING)
                )
                for member in members.values()
            },
            assignable,
        )
        for member_id in sorted(targets):
            if group.targets.get(member_id) != targets[member_id]:
                self._turn.write(group.target_record(member_id, targets[member_id]))
        self._turn.write(
            GroupRecord(
                ShareGroupTargetAssignmentMetadataKey(group.id),
                # The first assignment with partitions follows an empty one without a delay.
                ShareGroupTargetAssignmentMetadataValue(
                    assignment_epoch=epoch, assignment_timestamp=now if assignable else 0
                ),
            )
        )
        return targets, epoch

    @property
    def _may_assign(self) -> bool:
        last, interval = self._group.assignment_timestamp, self._settings.assignment_interval_ms
        # A time in the future is that of a wall clock that has been set back since.
        return not last <= self._turn.now < last + interval

    def _move(self, member: ShareMember, target: Assignment, target_epoch: int) -> ShareMember:
        """Move the member to its target, without topics that it does not subscribe to any more."""
        subscribed = self._topics.ids_of(member.topic_names)
        assigned = {topic: partitions for topic, partitions in target.items() if topic in subscribed}
        if member.epoch == target_epoch and assigned == member.assigned:
            return member
        return replace(member, epoch=target_epoch, previous_epoch=member.epoch, assigned=assigned)

    # -- state -------------------------------------------------------------------------------

    def _initialize(self, epoch: int, members: dict[str, ShareMember]) -> bool:
        """Request state for subscribed partitions that have none; return whether some are still without."""
        group, state = self._group, self._group.state
        wanted = {
            topic.id: frozenset(range(topic.partition_count))
            for name in _names(list(members.values()))
            if (topic := self._topics.by_name.get(name)) is not None
        }
        missing = without(wanted, state.initialized)
        new = without(missing, state.initializing)
        if new:
            self._turn.write(state.began(new).record(group.id, self._topic_names()))
            self._turn.decision.actions.append(InitializeShareState(group.id, epoch, new, state.added(new)))
            self._turn.set_timer(initialize_timer(group.id), INITIALIZE_RETRY_MS)
        return bool(missing)

    def _topic_names(self) -> dict[UUID, str]:
        return {topic_id: topic.name for topic_id, topic in self._topics.by_id.items()}


def _names(members: list[ShareMember]) -> frozenset[str]:
    return frozenset[str]().union(*(member.topic_names for member in members))


def _changed(member: ShareMember, command: ShareGroupHeartbeat) -> ShareMember:
    names = command.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        topic_names=member.topic_names if names is None else frozenset(names),
        client_id=command.client_id,
        client_host=command.client_host,
    )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    if epoch > member.epoch:
        raise FencedMemberEpoch(
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    if epoch < member.epoch and epoch != member.previous_epoch:
        raise FencedMemberEpoch(
            f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}), and it does not match the previous member epoch ({member.previous_epoch}). "
            "The member must abandon all its partitions and rejoin."
        )
