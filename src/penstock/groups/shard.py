"""One partition of `__consumer_offsets`: its groups and their offsets.

Dispatches commands to deciding functions by type, and records to the state they change by
the type of their key. State changes only in `adopt` and `apply`, which the runtime calls when
the records are in the log. Groups of all types share one map, as they share one namespace of ids.
"""

from collections.abc import Callable
from typing import Any

from penstock.coordinator.decision import NO_TICKET, Expired, ShardDecision, SharedDecision, Ticket
from penstock.groups import admin, offsets, records
from penstock.groups.classic import rebalance
from penstock.groups.classic import requests as classic
from penstock.groups.classic.group import ClassicGroup, ClassicMember, State
from penstock.groups.commands import (
    DeleteGroups,
    DescribeGroups,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
)
from penstock.groups.consumer.commands import (
    CONSUMER_TIMERS,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerSettings,
)
from penstock.groups.consumer.groups import ConsumerGroups
from penstock.groups.consumer.target import AssignmentFailed, TargetAssigned
from penstock.groups.consumer.topics import Topics
from penstock.groups.group import Group
from penstock.groups.offsets import Offsets
from penstock.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.share import records as share_records
from penstock.groups.share.commands import (
    SHARE_TIMERS,
    AlterShareOffsets,
    DeleteShareOffsets,
    ReadSharePartitions,
    ShareGroupDescribe,
    ShareGroupHeartbeat,
    ShareGroupSettings,
    ShareOffsetsAltered,
    ShareOffsetsDeleted,
    ShareStateInitialized,
)
from penstock.groups.share.groups import ShareGroups
from penstock.groups.turn import RETENTION, TimerKey, Turn
from penstock.model.errors import UNKNOWN_SERVER_ERROR

_SESSION_STATES = (State.STABLE, State.PREPARING)


_SHARE_KEYS = share_records.KEYS


def _default_settings(group_id: str) -> ConsumerSettings:
    return ConsumerSettings()


def _default_share_settings(group_id: str) -> ShareGroupSettings:
    return ShareGroupSettings()


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        *,
        settings_of: Callable[[str], ConsumerSettings] = _default_settings,
        share_settings_of: Callable[[str], ShareGroupSettings] = _default_share_settings,
        topics: Topics | None = None,
    ) -> None:
        self.settings = settings
        """Replaced when the configuration changes; used from the next command on."""
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.consumers = ConsumerGroups(
            self.groups, has_offsets=self.offsets.has_offsets, settings_of=settings_of, topics=topics
        )
        """Its `topics` are replaced when the metadata changes."""
        self.shares = ShareGroups(self.groups, settings_of=share_settings_of, topics=topics)
        """Its `topics` are replaced too."""
        self._deciders: dict[type, Callable[[Any, Turn], None]] = {
            JoinGroup: self._join,
            SyncGroup: self._sync,
            Heartbeat: self._heartbeat,
            LeaveGroup: self._leave,
            ConsumerGroupHeartbeat: self.consumers.heartbeat,
            ConsumerGroupDescribe: self.consumers.describe,
            TargetAssigned: self.consumers.assigned,
            AssignmentFailed: self.consumers.assignment_failed,
            ShareGroupHeartbeat: self.shares.heartbeat,
            ShareGroupDescribe: self.shares.describe,
            ShareStateInitialized: self.shares.initialized,
            AlterShareOffsets: self.shares.alter_offsets,
            ShareOffsetsAltered: self.shares.offsets_altered,
            DeleteShareOffsets: self.shares.delete_offsets,
            ShareOffsetsDeleted: self.shares.offsets_deleted,
            ReadSharePartitions: self.shares.read_partitions,
            OffsetCommit: offsets.commit_to_unknown_group,
            TxnOffsetCommit: self._commit_in_transaction,
            OffsetFetch: self._fetch,
            OffsetDelete: self._delete_offsets,
            ListGroups: lambda command, turn: admin.list_groups(self.groups, command, turn),
            DescribeGroups: lambda command, turn: admin.describe_groups(self.groups, command, turn),
            DeleteGroups: lambda command, turn: admin.delete_groups(self.groups, self.offsets, command, turn),
            ForgetTopics: self._forget_topics,
            Expired: self._expire,
        }

    @property
    def metadata_size(self) -> int:
        return sum(group.metadata_size for group in self.groups.values() if isinstance(group, ClassicGroup))

    # -- called by the runtime -------------------------------------------------------------

    def decide(
        self, command: Any, *, ticket: Ticket, now: int
    ) -> ShardDecision[GroupRecord] | SharedDecision[GroupRecord]:
        if type(command) is OffsetCommit and (group := self.groups.get(command.group_id)) is not None:
            return self._commit(group, command, now)
        turn = Turn(self.settings, ticket, now)
        self._deciders[type(command)](command, turn)
        return turn.decision

    def _commit(self, group: Group, command: OffsetCommit, now: int) -> SharedDecision[GroupRecord]:
        """Commit to a known group. The checks depend only on its members, which a commit does not change."""
        written, reply = offsets.commit_records(group, command, now=now, settings=self.settings)
        member = self._committing_member(group, command) if written else None
        timer = None if member is None else rebalance.session_timer(command.group_id, member)
        return SharedDecision(written, reply, timer)

    def adopt(self, drafts: dict[str, Any]) -> None:
        self.groups.update(drafts)

    def apply(self, record: GroupRecord) -> None:
        key, value = record
        if isinstance(key, OffsetCommitKey):
            self._apply_offset(key, value)
        elif isinstance(key, GroupMetadataKey):
            self._apply_group(key, value)
        elif isinstance(key, _SHARE_KEYS):
            self.shares.apply(record)
        else:
            self.consumers.apply(record)

    def stage(self, record: GroupRecord, producer_id: int) -> None:
        key, value = record
        if isinstance(key, OffsetCommitKey) and value is not None:
            self.offsets.pending.stage(producer_id, key, value)
            self._ensure_group(key.group)
        else:
            # Nothing else is ever part of a transaction. Kafka applies such records immediately too.
            self.apply(record)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def loaded(self, now: int) -> ShardDecision[GroupRecord]:
        """Give every member a new session, as none could send a heartbeat while the log was being loaded."""
        turn = Turn(self.settings, NO_TICKET, now)
        for group in self.groups.values():
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                rebalance.keep_session(group, member, turn)
            # Either group.max.size was lowered, and the members that rejoin last are rejected; or the node stopped
            # between a downgrade and its rebalance, which shows in the missing leader.
            if len(group.members) > self.settings.size_max or (group.state is State.STABLE and group.leader is None):
                draft = turn.decision.drafts[group.id] = group.copy()
                rebalance.prepare(draft, turn)
        self.consumers.loaded(turn)
        self.shares.loaded(turn)
        turn.set_timer(TimerKey(RETENTION), self.settings.offsets_retention_check_interval_ms)
        return turn.decision

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return records.decode(key, value)

    # -- deciding --------------------------------------------------------------------------

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _keep(self, draft: ClassicGroup | None, turn: Turn) -> None:
        if draft is not None:
            turn.decision.drafts[draft.id] = draft

    def _join(self, command: JoinGroup, turn: Turn) -> None:
        if any(len(metadata) > self.settings.metadata_size_max for _, metadata in command.protocols):
            # Kafka accepts the member and fails its SyncGroup with this error: the group's record would be too large.
            turn.answer(JoinReply(error=UNKNOWN_SERVER_ERROR, member_id=command.member_id))
            return
        if self.shares.find(command.group_id) is not None:
            classic.refuse_join(command, turn)
            return
        consumer = self.consumers.find(command.group_id)
        if consumer is not None and consumer.members:
            self.consumers.join(consumer, command, turn)
            return
        draft = classic.join(self._classic(command.group_id), command, turn)
        self._keep(draft, turn)
        if consumer is not None and draft is not None:
            self.consumers.remove_empty(consumer, turn)

    def _sync(self, command: SyncGroup, turn: Turn) -> None:
        consumer = self.consumers.find(command.group_id)
        if consumer is None:
            self._keep(classic.sync(self._classic(command.group_id), command, turn), turn)
        else:
            self.consumers.sync(consumer, command, turn)

    def _heartbeat(self, command: Heartbeat, turn: Turn) -> None:
        consumer = self.consumers.find(command.group_id)
        if consumer is None:
            classic.heartbeat(self._classic(command.group_id), command, turn)
        else:
            self.consumers.classic_heartbeat(consumer, command, turn)

    def _leave(self, command: LeaveGroup, turn: Turn) -> None:
        consumer = self.consumers.find(command.group_id)
        if consumer is None:
            self._keep(classic.leave(self._classic(command.group_id), command, turn), turn)
        else:
            self.consumers.leave(consumer, command, turn)

    @staticmethod
    def _committing_member(group: Group, command: OffsetCommit) -> ClassicMember | None:
        """Return the member whose session the commit extends, as a heartbeat would."""
        if isinstance(group, ClassicGroup) and group.state in _SESSION_STATES:
            return group.members.get(command.member_id)
        return None

    def _commit_in_transaction(self, command: TxnOffsetCommit, turn: Turn) -> None:
        offsets.commit_in_transaction(self.groups.get(command.group_id), command, turn)

    def _fetch(self, command: OffsetFetch, turn: Turn) -> None:
        offsets.fetch(self.offsets, self.groups.get(command.group_id), command, turn)

    def _delete_offsets(self, command: OffsetDelete, turn: Turn) -> None:
        offsets.delete(self.offsets, self.groups.get(command.group_id), command, turn)

    def _forget_topics(self, command: ForgetTopics, turn: Turn) -> None:
        offsets.forget_topics(self.offsets, command, turn)
        self.shares.forget_topics([topic_id for _, topic_id in command.topics], turn)

    def _expire(self, command: Expired, turn: Turn) -> None:
        timer: TimerKey = command.timer
        if timer.kind == RETENTION:
            admin.sweep(self.groups, self.offsets, turn)
            return
        if timer.kind in CONSUMER_TIMERS:
            self.consumers.expire(timer, turn)
            return
        if timer.kind in SHARE_TIMERS:
            self.shares.expire(timer, turn)
            return
        group = self._classic(timer.group_id)
        if group is not None:
            draft = group.copy()
            rebalance.expire(draft, timer, turn)
            self._keep(draft, turn)

    # -- applying --------------------------------------------------------------------------

    def _apply_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self.offsets.apply(key, value)
        if value is not None:
            self._ensure_group(key.group)

    def _ensure_group(self, group_id: str) -> None:
        if group_id not in self.groups:
            # A group that only commits offsets has no record.
            self.groups[group_id] = ClassicGroup(group_id)

    def _apply_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._classic(key.group)
        if value is None:
            if group is None:
                return
            del self.groups[key.group]
            if self.offsets.has_offsets(key.group):
                # The offsets outlive the group's record and still expire, as in a group that only commits.
                self.groups[key.group] = ClassicGroup(key.group)
        elif group is None:
            self.groups[key.group] = ClassicGroup.restore(key.group, value)
        else:
            self.groups[key.group] = group.absorb(value)
