"""The share groups of a shard: commands, timers and records of KIP-932.

Shares the shard's map with the other types of groups. Decides without changing the groups; `apply` changes them.
A Refusal becomes a reply here, and discards what the turn had decided before. Goes to heartbeat.py.
"""

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from penstock.coordinator.decision import ShardDecision
from penstock.groups.consumer.commands import DescribedPartitions
from penstock.groups.consumer.topics import Topics
from penstock.groups.errors import GroupIdNotFound, InvalidGroupId, NonEmptyGroup
from penstock.groups.group import Group
from penstock.groups.records import GroupRecord
from penstock.groups.share import assignor, heartbeat
from penstock.groups.share.commands import (
    INITIALIZE_RETRY_MS,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    SHARE_SESSION,
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribedShareGroup,
    DescribedShareMember,
    InitializeShareState,
    ReadSharePartitions,
    ShareGroupDescribe,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatReply,
    ShareGroupSettings,
    ShareOffsetsAltered,
    ShareOffsetsDeleted,
    ShareStateInitialized,
    ShareStateReply,
    initialize_timer,
    session_timer,
)
from penstock.groups.share.group import ShareGroup, ShareMember, StatePartitions, common
from penstock.groups.share.heartbeat import ShareUpdate
from penstock.groups.share.records import ShareGroupMetadataKey
from penstock.groups.turn import TimerKey, Turn
from penstock.model.errors import Refusal


class ShareGroups:
    """The share groups in the shard's map. `topics` is replaced as topics change."""

    def __init__(
        self,
        groups: dict[str, Group],
        *,
        settings_of: Callable[[str], ShareGroupSettings] = lambda group_id: ShareGroupSettings(),
        topics: Topics | None = None,
    ) -> None:
        self._groups = groups
        self.settings_of = settings_of
        self.topics = topics or Topics()

    def find(self, group_id: str) -> ShareGroup | None:
        """Return the group if it is a share group."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def _open(self, group_id: str, *, creates: bool, kind: str = "Group") -> ShareGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")
        if not creates:
            raise GroupIdNotFound(f"{kind} {group_id} not found.")
        return ShareGroup(group_id)

    def _update(self, group: ShareGroup, turn: Turn) -> ShareUpdate:
        return ShareUpdate(group, turn, self.settings_of(group.id), self.topics)

    # -- members -----------------------------------------------------------------------------

    def heartbeat(self, command: ShareGroupHeartbeat, turn: Turn) -> None:
        try:
            heartbeat.check(command)
            epoch = command.member_epoch
            kind = "Group" if epoch == LEAVE_EPOCH else "Share group"
            group = self._open(command.group_id, creates=epoch == JOIN_EPOCH, kind=kind)
            update = self._update(group, turn)
            if command.member_epoch == LEAVE_EPOCH:
                update.leave(command.member_id)
                reply = ShareGroupHeartbeatReply(member_id=command.member_id, member_epoch=LEAVE_EPOCH)
            else:
                reply = update.heartbeat(command)
        except Refusal as refusal:
            turn.decision = ShardDecision()
            reply = ShareGroupHeartbeatReply(error=refusal.code, error_message=refusal.message)
        turn.answer(reply)

    def describe(self, command: ShareGroupDescribe, turn: Turn) -> None:
        turn.answer(tuple(self._describe(group_id) for group_id in command.group_ids))

    def _describe(self, group_id: str) -> DescribedShareGroup:
        if not group_id:
            return DescribedShareGroup(error=InvalidGroupId.code, group_id=group_id)
        try:
            group = self._open(group_id, creates=False)
        except Refusal as refusal:
            what = "not found" if group_id not in self._groups else "is not a share group"
            return DescribedShareGroup(error=refusal.code, error_message=f"Group {group_id} {what}.", group_id=group_id)
        return DescribedShareGroup(
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=assignor.NAME,
            members=tuple(map(self._describe_member, group.members.values())),
        )

    def _describe_member(self, member: ShareMember) -> DescribedShareMember:
        return DescribedShareMember(
            member_id=member.id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.topic_names)),
            assignment=tuple(
                DescribedPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(indexes)))
                for topic_id, indexes in sorted(member.assigned.items())
                if (topic := self.topics.by_id.get(topic_id)) is not None
            ),
        )

    # -- state -------------------------------------------------------------------------------

    def initialized(self, command: ShareStateInitialized, turn: Turn) -> None:
        """Record an initialization, unless its topic or state was deleted while it was being carried out."""
        group = self.find(command.group_id)
        if group is not None:
            requested = common(command.partitions, group.state.initializing)
            self._write_state(group, group.state.completed(requested), turn)
        turn.answer(ShareStateReply())

    def offsets_altered(self, command: ShareOffsetsAltered, turn: Turn) -> None:
        group = self.find(command.group_id)
        if group is not None:
            self._write_state(group, group.state.completed(command.partitions), turn)
        turn.answer(ShareStateReply())

    def alter_offsets(self, command: AlterShareOffsets, turn: Turn) -> None:
        """Begin a new state epoch, so that writes of earlier leaders cannot follow the new offsets."""
        try:
            group = self._open(command.group_id, creates=True)
            if group.members:
                raise NonEmptyGroup("The group is not empty.")
        except Refusal as refusal:
            turn.answer(ShareStateReply(error=refusal.code, error_message=refusal.message))
            return
        turn.write(group.epoch_record(group.epoch + 1, group.metadata_hash))
        turn.answer(ShareStateReply(state_epoch=group.epoch + 1, partitions=group.state.initialized))

    def delete_offsets(self, command: DeleteShareOffsets, turn: Turn) -> None:
        """Begin to delete state. Until it is gone, the topics are marked, so that a retry deletes the rest."""
        try:
            group = self._open(command.group_id, creates=False)
            group.check_delete()
        except Refusal as refusal:
            turn.answer(ShareStateReply(error=refusal.code, error_message=refusal.message))
            return
        state = group.state
        topic_ids = state.topic_ids if command.topic_ids is None else state.topic_ids & command.topic_ids
        deleted = {
            topic_id: frozenset(range(topic.partition_count))
            for topic_id in topic_ids
            if (topic := self.topics.by_id.get(topic_id)) is not None
        }
        # The share coordinator deletes the state of deleted topics itself.
        self._write_state(group, state.deletes(topic_ids).forgot(topic_ids - deleted.keys()), turn)
        turn.answer(ShareStateReply(partitions=deleted))

    def offsets_deleted(self, command: ShareOffsetsDeleted, turn: Turn) -> None:
        group = self.find(command.group_id)
        if group is not None:
            # Including state that a new member has caused to be initialized meanwhile: it may be deleted, too. The next
            # heartbeat requests it again.
            self._write_state(group, group.state.forgot(command.topic_ids), turn)
        turn.answer(ShareStateReply())

    def read_partitions(self, command: ReadSharePartitions, turn: Turn) -> None:
        try:
            group = self._open(command.group_id, creates=False)
        except Refusal as refusal:
            turn.answer(ShareStateReply(error=refusal.code, error_message=refusal.message))
            return
        turn.answer(ShareStateReply(state_epoch=group.epoch, partitions=group.state.initialized))

    def topics_with_state(self) -> Iterator[UUID]:
        """Yield the topics of every group's state; a topic may occur several times."""
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                yield from group.state.topic_ids

    def forget_topics(self, topic_ids: Iterable[UUID], turn: Turn) -> None:
        """Remove deleted topics. The share coordinator deletes their state itself."""
        gone = frozenset(topic_ids)
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                self._write_state(group, group.state.forgot(gone), turn)

    def _write_state(self, group: ShareGroup, state: StatePartitions, turn: Turn) -> None:
        if state != group.state:
            names = {topic_id: topic.name for topic_id, topic in self.topics.by_id.items()}
            turn.write(state.record(group.id, names))

    # -- timers ------------------------------------------------------------------------------

    def expire(self, timer: TimerKey, turn: Turn) -> None:
        """Handle a timer of one of the kinds in SHARE_TIMERS."""
        group = self.find(timer.group_id)
        if group is None:
            return
        if timer.kind == SHARE_SESSION:
            if timer.member_id in group.members:
                self._update(group, turn).leave(timer.member_id)
        else:
            self._initialize_again(group, turn)

    def loaded(self, turn: Turn) -> None:
        """Give every member a new session, and continue to initialize state."""
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                timeout_ms = self.settings_of(group.id).session_timeout_ms
                for member_id in group.members:
                    turn.set_timer(session_timer(group.id, member_id), timeout_ms)
                self._initialize_again(group, turn)

    def _initialize_again(self, group: ShareGroup, turn: Turn) -> None:
        if group.state.initializing:
            waiting = group.state.initializing
            action = InitializeShareState(group.id, group.epoch, waiting, group.state.added(waiting))
            turn.decision.actions.append(action)
            turn.set_timer(initialize_timer(group.id), INITIALIZE_RETRY_MS)

    # -- the log -----------------------------------------------------------------------------

    def apply(self, record: GroupRecord) -> None:
        """Apply a record of one of the types in records.py."""
        key, value = record
        group = self.find(key.group_id)
        if value is None and isinstance(key, ShareGroupMetadataKey):
            if group is not None:
                del self._groups[key.group_id]
            return
        if group is None:
            if value is None:
                return
            group = ShareGroup(key.group_id)
            self._groups[key.group_id] = group
        group.apply(record)
