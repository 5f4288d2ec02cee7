"""The consumer groups of a shard: commands, timers and records of KIP-848.

Shares the shard's map with the classic groups; the shard passes on what concerns consumer
groups. Decides without changing the groups; `apply` and the adoption of drafts change them.
A Refusal becomes a reply here, and discards what the turn had decided before.
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.coordinator.decision import ShardDecision
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.commands import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    SyncGroup,
    SyncReply,
)
from penstock.groups.consumer import classic_members, heartbeat
from penstock.groups.consumer.commands import (
    CONSUMER_REGEX,
    JOIN_EPOCH,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    ConsumerSettings,
    DescribedConsumerGroup,
    revoke_timer,
    session_timer,
)
from penstock.groups.consumer.describe import describe
from penstock.groups.consumer.fencing import expire
from penstock.groups.consumer.group import ConsumerGroup, ResolvedRegex
from penstock.groups.consumer.member import MemberState
from penstock.groups.consumer.migration import upgrade
from penstock.groups.consumer.records import ConsumerGroupMetadataKey
from penstock.groups.consumer.regex import matching
from penstock.groups.consumer.target import AssignmentFailed, TargetAssigned
from penstock.groups.consumer.topics import Topics
from penstock.groups.consumer.update import Update
from penstock.groups.errors import GroupIdNotFound, InvalidGroupId, InvalidSessionTimeout
from penstock.groups.group import Group
from penstock.groups.records import GroupRecord
from penstock.groups.turn import TimerKey, Turn
from penstock.model.errors import Refusal


class ConsumerGroups:
    """The consumer groups in the shard's map. `topics` and `settings_of` are replaced as they change."""

    def __init__(
        self,
        groups: dict[str, Group],
        *,
        has_offsets: Callable[[str], bool],
        settings_of: Callable[[str], ConsumerSettings] = lambda group_id: ConsumerSettings(),
        topics: Topics | None = None,
    ) -> None:
        self._groups = groups
        self._has_offsets = has_offsets
        self.settings_of = settings_of
        self.topics = topics or Topics()

    def find(self, group_id: str) -> ConsumerGroup | None:
        """Return the group if it is a consumer group."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _update(self, group: ConsumerGroup, turn: Turn) -> Update:
        return Update(group, turn, self.settings_of(group.id), self.topics)

    # -- commands ----------------------------------------------------------------------------

    def heartbeat(self, command: ConsumerGroupHeartbeat, turn: Turn) -> None:
        """Handle a ConsumerGroupHeartbeat to a group of any type."""
        try:
            heartbeat.check(command, self.settings_of(command.group_id))
            update = self._open(command, turn)
            act = heartbeat.leave if command.member_epoch < JOIN_EPOCH else heartbeat.heartbeat
            reply = act(update, command)
            update.finish()
        except Refusal as refusal:
            turn.decision = ShardDecision()
            reply = ConsumerGroupHeartbeatReply(error=refusal.code, error_message=refusal.message)
        turn.answer(reply)

    def _open(self, command: ConsumerGroupHeartbeat, turn: Turn) -> Update:
        """Find the group of a heartbeat; a join creates it or upgrades a classic group."""
        group = self._groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return self._update(group, turn)
        settings = self.settings_of(command.group_id)
        if command.member_epoch == JOIN_EPOCH and group is None:
            return Update(ConsumerGroup(command.group_id), turn, settings, self.topics, is_new=True)
        if command.member_epoch == JOIN_EPOCH and isinstance(group, ClassicGroup):
            upgraded = upgrade(group, turn, settings, self.topics, command.describable)
            return Update(upgraded, turn, settings, self.topics, is_new=True, was_rebalancing=group.is_rebalancing)
        if group is None:
            what = "Group" if command.member_epoch < JOIN_EPOCH else "Consumer group"
            raise GroupIdNotFound(f"{what} {command.group_id} not found.")
        raise GroupIdNotFound(f"Group {command.group_id} is not a consumer group.")

    def join(self, group: ConsumerGroup, command: JoinGroup, turn: Turn) -> None:
        """Handle a JoinGroup to a consumer group that has members. A classic group replaces an empty one."""
        update = self._update(group, turn)
        try:
            least, most = turn.settings.session_timeout_ms_min, turn.settings.session_timeout_ms_max
            if not least <= command.session_timeout_ms <= most:
                raise InvalidSessionTimeout
            reply = classic_members.join(update, command)
            update.finish()
        except Refusal as refusal:
            turn.decision = ShardDecision()
            reply = JoinReply(error=refusal.code, member_id=command.member_id)
        turn.answer(reply)

    def remove_empty(self, group: ConsumerGroup, turn: Turn) -> None:
        """Write the tombstones of an empty consumer group before the records of its classic successor."""
        assert group.is_empty
        turn.decision.records[:0] = group.tombstones()

    def sync(self, group: ConsumerGroup, command: SyncGroup, turn: Turn) -> None:
        update = self._update(group, turn)
        try:
            reply = classic_members.sync(update, command)
            update.finish()
        except Refusal as refusal:
            reply = SyncReply(error=refusal.code)
        turn.answer(reply)

    def classic_heartbeat(self, group: ConsumerGroup, command: Heartbeat, turn: Turn) -> None:
        update = self._update(group, turn)
        try:
            error = classic_members.heartbeat(update, command)
            update.finish()
        except Refusal as refusal:
            error = refusal.code
        turn.answer(HeartbeatReply(error))

    def leave(self, group: ConsumerGroup, command: LeaveGroup, turn: Turn) -> None:
        update = self._update(group, turn)
        reply = classic_members.leave(update, command)
        update.finish()
        turn.answer(reply)

    def describe(self, command: ConsumerGroupDescribe, turn: Turn) -> None:
        turn.answer(tuple(self._describe(group_id) for group_id in command.group_ids))

    def _describe(self, group_id: str) -> DescribedConsumerGroup:
        group = self.find(group_id)
        if not group_id:
            return DescribedConsumerGroup(error=InvalidGroupId.code, group_id=group_id)
        if group is None:
            what = "not found" if group_id not in self._groups else "is not a consumer group"
            return DescribedConsumerGroup(
                error=GroupIdNotFound.code, error_message=f"Group {group_id} {what}.", group_id=group_id
            )
        return describe(group, self.topics, self.settings_of(group_id).assignors[0])

    # -- target assignments of large groups ----------------------------------------------------

    def assigned(self, command: TargetAssigned, turn: Turn) -> None:
        update = self._assigning(command, turn)
        if update is not None:
            update.write_targets(command)
            update.finish()
        turn.answer(update is not None)

    def assignment_failed(self, command: AssignmentFailed, turn: Turn) -> None:
        update = self._assigning(command, turn)
        if update is not None:
            update.end_assignment()
            update.finish()
        turn.answer(update is not None)

    def _assigning(self, command: TargetAssigned | AssignmentFailed, turn: Turn) -> Update | None:
        """Return the group if it still waits for this target: it may have been deleted or converted meanwhile."""
        group = self.find(command.group_id)
        if group is None or group.volatile.assigning_epoch != command.epoch or group.assignment_epoch >= command.epoch:
            return None
        return self._update(group, turn)

    # -- timers ------------------------------------------------------------------------------

    def expire(self, timer: TimerKey, turn: Turn) -> None:
        """Handle a timer of one of the kinds in CONSUMER_TIMERS."""
        group = self.find(timer.group_id)
        if group is None:
            return
        update = self._update(group, turn)
        if timer.kind == CONSUMER_REGEX:
            self._resolve(update)
        else:
            expire(update, timer)
        update.finish()

    def _resolve(self, update: Update) -> None:
        """Match the group's regular expressions against the topics, and rebalance if the result has changed."""
        group, describable = update.group, update.volatile.describable
        update.volatile = replace(update.volatile, is_resolving=False, describable=None)
        names = self.topics.by_name.keys()
        must_bump = False
        topics = frozenset[str]().union(*group.subscriptions)
        for regex in sorted(group.regexes):
            matched = matching(regex, names)
            if describable is not None:
                matched = describable(matched)
            topics |= matched
            known = group.resolved.get(regex)
            must_bump = must_bump or matched != (known.topics if known else frozenset())
            resolved = ResolvedRegex(matched, self.topics.version, update.turn.now)
            update.turn.write(group.regex_record(regex, resolved))
        metadata_hash = self.topics.hash_of(topics)
        if must_bump or metadata_hash != group.metadata_hash:
            update.note_topics_checked(update.bump(metadata_hash))

    def loaded(self, turn: Turn) -> None:
        """Give every member a new session, as none could send a heartbeat while the log was being loaded."""
        for group in self._groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            session_timeout_ms = self.settings_of(group.id).session_timeout_ms
            for member in group.members.values():
                turn.set_timer(session_timer(group.id, member.id), session_timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    turn.set_timer(revoke_timer(group.id, member.id), member.rebalance_timeout_ms)

    # -- the log -----------------------------------------------------------------------------

    def apply(self, record: GroupRecord) -> None:
        """Apply a record of one of the types in records.py."""
        key, value = record
        group = self.find(key.group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            if group is not None:
                self._forget(group)
            return
        if group is None:
            # Tombstones of a group that is deleted or has become classic have no effect.
            if value is None:
                return
            # A classic group with this id has only offsets: any other was removed by a tombstone before.
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id)
        group.apply(record)

    def _forget(self, group: ConsumerGroup) -> None:
        if self._has_offsets(group.id):
            # The offsets outlive the group's record and still expire, as in a group that only commits.
            self._groups[group.id] = ClassicGroup(group.id)
        else:
            del self._groups[group.id]
