"""One partition of `__consumer_offsets`: its groups and their offsets, behind one door.

Commands go to the deciding functions by their type, records to what they change by the
type of their key. Nothing changes but in `adopt` and `apply`, which the runtime calls once
the records are in the log. The KIP-848 groups plug in beside the classic ones.
"""

from collections.abc import Callable
from typing import Any

from penstock.coordinator.decision import NO_TICKET, Decision, Expired, Ticket
from penstock.groups import admin, classic, offsets, rebalance, records
from penstock.groups.classic_group import ClassicGroup, State
from penstock.groups.commands import (
    DeleteGroups,
    DescribeGroups,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
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
from penstock.groups.turn import RETENTION, TimerKey, Turn


class GroupShard:
    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        """Replaced when the configuration changes; holds from the next command on."""
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._deciders: dict[type, Callable[[Any, Turn], None]] = {
            JoinGroup: self._join,
            SyncGroup: self._sync,
            Heartbeat: self._heartbeat,
            LeaveGroup: self._leave,
            OffsetCommit: self._commit,
            OffsetFetch: self._fetch,
            OffsetDelete: self._delete_offsets,
            ListGroups: lambda command, turn: admin.list_groups(self.groups, command, turn),
            DescribeGroups: lambda command, turn: admin.describe_groups(self.groups, command, turn),
            DeleteGroups: lambda command, turn: admin.delete_groups(self.groups, self.offsets, command, turn),
            ForgetTopics: lambda command, turn: offsets.forget_topics(self.offsets, command, turn),
            Expired: self._expire,
        }
        self._appliers: dict[type, Callable[[Any, Any], None]] = {
            OffsetCommitKey: self._apply_offset,
            GroupMetadataKey: self._apply_group,
        }

    # -- what the runtime calls ------------------------------------------------------------

    def decide(self, command: Any, *, ticket: Ticket, now: int) -> Decision[GroupRecord]:
        turn = Turn(self.settings, ticket, now)
        self._deciders[type(command)](command, turn)
        return turn.decision

    def adopt(self, drafts: dict[str, Any]) -> None:
        self.groups.update(drafts)

    def apply(self, record: GroupRecord) -> None:
        applier = self._appliers.get(type(record.key))
        if applier is not None:
            applier(record.key, record.value)

    def loaded(self, now: int) -> Decision[GroupRecord]:
        """Give every member a new session: nobody could send a heartbeat while the log was read."""
        turn = Turn(self.settings, NO_TICKET, now)
        for group in self.groups.values():
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                rebalance.keep_session(group, member, turn)
            if len(group.members) > self.settings.size_max:
                # The bound was lowered: the members rejoin, and the last ones are turned away.
                draft = turn.decision.drafts[group.id] = group.copy()
                rebalance.prepare(draft, turn)
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
        self._keep(classic.join(self._classic(command.group_id), command, turn), turn)

    def _sync(self, command: SyncGroup, turn: Turn) -> None:
        self._keep(classic.sync(self._classic(command.group_id), command, turn), turn)

    def _heartbeat(self, command: Heartbeat, turn: Turn) -> None:
        classic.heartbeat(self._classic(command.group_id), command, turn)

    def _leave(self, command: LeaveGroup, turn: Turn) -> None:
        self._keep(classic.leave(self._classic(command.group_id), command, turn), turn)

    def _commit(self, command: OffsetCommit, turn: Turn) -> None:
        group = self.groups.get(command.group_id)
        offsets.commit(group, command, turn)
        if isinstance(group, ClassicGroup) and group.state in (State.STABLE, State.PREPARING):
            # A commit shows that the member is alive, as a heartbeat does.
            member = group.members.get(command.member_id)
            if member is not None and turn.decision.records:
                rebalance.keep_session(group, member, turn)

    def _fetch(self, command: OffsetFetch, turn: Turn) -> None:
        offsets.fetch(self.offsets, self.groups.get(command.group_id), command, turn)

    def _delete_offsets(self, command: OffsetDelete, turn: Turn) -> None:
        offsets.delete(self.offsets, self.groups.get(command.group_id), command, turn)

    def _expire(self, command: Expired, turn: Turn) -> None:
        timer: TimerKey = command.timer
        if timer.kind == RETENTION:
            admin.sweep(self.groups, self.offsets, turn)
            return
        group = self._classic(timer.group_id)
        if group is not None:
            draft = group.copy()
            rebalance.expire(draft, timer, turn)
            self._keep(draft, turn)

    # -- applying --------------------------------------------------------------------------

    def _apply_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self.offsets.apply(key, value)
        if value is not None and key.group not in self.groups:
            # A group that only commits has no record of its own.
            self.groups[key.group] = ClassicGroup(key.group)

    def _apply_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._classic(key.group)
        if value is None:
            if group is not None:
                del self.groups[key.group]
        elif group is None:
            self.groups[key.group] = ClassicGroup.restore(key.group, value)
        else:
            self.groups[key.group] = group.absorb(value)
