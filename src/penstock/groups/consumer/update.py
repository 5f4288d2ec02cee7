"""A change to one consumer group, in steps: the member, the group epoch, the target, the reconciliation.

Used by heartbeat.py and classic_members.py, whose members differ only in their
requests. Adds records to the turn and changes no state: the results of earlier steps are
passed to later ones. Calls target.py and reconciliation.py.
"""

from dataclasses import replace
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.groups.commands import Describable
from penstock.groups.consumer.assignors import ASSIGNORS, Assignment
from penstock.groups.consumer.commands import (
    ConsumerSettings,
    regex_timer,
    revoke_timer,
)
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember, MemberState, member_tombstones, target_record
from penstock.groups.consumer.reconciliation import Step, reconcile
from penstock.groups.consumer.records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from penstock.groups.consumer.regex import check_regex
from penstock.groups.consumer.target import (
    MEMBERS_AT_ONCE_MAX,
    PARTITIONS_AT_ONCE_MAX,
    AssignTarget,
    TargetAssigned,
    assign,
)
from penstock.groups.consumer.topics import Topics
from penstock.groups.records import GroupRecord
from penstock.groups.turn import Turn

REGEX_REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""The minimum time between two matches, which cover all expressions, so that they cause a single rebalance."""


class RegexChange(Enum):
    NONE = auto()
    UNRESOLVED = auto()
    """A new expression that has not been matched yet; the rebalance follows the match."""
    RESOLVED = auto()


class Target(NamedTuple):
    epoch: int
    assignment: Assignment


class Update:
    __slots__ = ("group", "is_new", "settings", "topics", "turn", "volatile", "was_rebalancing")

    def __init__(
        self,
        group: ConsumerGroup,
        turn: Turn,
        settings: ConsumerSettings,
        topics: Topics,
        *,
        is_new: bool = False,
        was_rebalancing: bool = False,
    ) -> None:
        self.group = group
        self.turn = turn
        self.settings = settings
        self.topics = topics
        self.volatile = group.volatile
        self.is_new = is_new
        """The group does not exist yet: applying the records creates it."""
        self.was_rebalancing = was_rebalancing
        """The group was a classic one until now, with a rebalance in progress that must be restarted."""

    def finish(self) -> None:
        """Add a draft of the group if its volatile state has changed."""
        drafts = self.turn.decision.drafts
        if self.group.id in drafts:
            # The group has become a classic one.
            return
        if self.is_new:
            drafts[self.group.id] = ConsumerGroup(self.group.id).draft(self.volatile)
        elif self.volatile is not self.group.volatile:
            drafts[self.group.id] = self.group.draft(self.volatile)

    # -- the member --------------------------------------------------------------------------

    def replace_static(self, old: ConsumerMember, new_id: str) -> ConsumerMember:
        """Write a static member under a new id, with the state of the old one."""
        new = replace(old, id=new_id, epoch=0, previous_epoch=0)
        group_id = self.group.id
        self.turn.decision.records += member_tombstones(group_id, old.id)
        self.turn.write(new.subscription_record(group_id))
        self.turn.write(target_record(group_id, new_id, self.group.targets.get(old.id, {})))
        self.turn.write(new.assignment_record(group_id))
        return new

    def write_subscription(self, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Write the member's subscription if it changed; return whether its topic names did."""
        if new is old or new == old:
            return False
        self.turn.write(new.subscription_record(self.group.id))
        return new.topic_names != old.topic_names

    def update_regex(self, old: ConsumerMember, new: ConsumerMember, describable: Describable | None) -> RegexChange:
        """Record a change of the member's regular expression, and schedule a match if it is due."""
        group, change = self.group, RegexChange.NONE
        must_resolve = False
        if new.topic_regex != old.topic_regex:
            change = RegexChange.UNRESOLVED
            if old.topic_regex and group.regexes[old.topic_regex] == 1:
                self.turn.write(group.regex_record(old.topic_regex, None))
            if not new.topic_regex:
                change = RegexChange.RESOLVED
            elif not group.regexes[new.topic_regex]:
                check_regex(new.topic_regex)
                must_resolve = True
            elif new.topic_regex in group.resolved:
                change = RegexChange.RESOLVED
        if (group.regexes or must_resolve) and not self.volatile.is_resolving:
            self._resolve_if_due(old, new, describable, must_resolve)
        return change

    def _resolve_if_due(
        self, old: ConsumerMember, new: ConsumerMember, describable: Describable | None, must_resolve: bool
    ) -> None:
        group = self.group
        last = next(iter(group.resolved.values()), None)
        if last is not None and self.turn.now <= last.timestamp + REGEX_REFRESH_INTERVAL_MS_MIN:
            return
        regexes = group.regexes.copy()
        regexes[old.topic_regex] -= 1
        regexes[new.topic_regex] += 1
        wanted = {regex for regex, count in regexes.items() if regex and count > 0}
        is_due = (
            must_resolve
            or len(wanted) != len(group.resolved)
            or last is None
            or last.version < self.topics.created_version
            or self.turn.now > last.timestamp + self.settings.regex_refresh_interval_ms
        )
        if is_due and wanted:
            self.volatile = replace(self.volatile, is_resolving=True, describable=describable)
            self.turn.set_timer(regex_timer(group.id), 0)

    # -- the group epoch ---------------------------------------------------------------------

    @property
    def topics_changed(self) -> bool:
        """Return whether topics may have changed since the group last compared them."""
        checked = self.volatile
        return checked.checked_topics_version != self.topics.version or self.group.epoch < checked.checked_group_epoch

    def update_epoch(self, old: ConsumerMember, new: ConsumerMember, *, must_bump: bool) -> int:
        """Raise the group epoch if required by the caller or if the subscribed topics have changed."""
        group = self.group
        metadata_hash = self.topics.hash_of(group.subscribed_names(without=(old,), including=new))
        epoch = group.epoch
        if must_bump or metadata_hash != group.metadata_hash:
            epoch = self.bump(metadata_hash)
        self.note_topics_checked(epoch)
        if group.has_partition_metadata:
            self.turn.write(GroupRecord(ConsumerGroupPartitionMetadataKey(group.id), None))
        return epoch

    def bump(self, metadata_hash: int) -> int:
        epoch = self.group.epoch + 1
        self.turn.write(self.group.epoch_record(epoch, metadata_hash))
        return epoch

    def note_topics_checked(self, epoch: int) -> None:
        self.volatile = replace(self.volatile, checked_topics_version=self.topics.version, checked_group_epoch=epoch)

    # -- the target assignment ---------------------------------------------------------------

    def update_target(self, group_epoch: int, old: ConsumerMember, new: ConsumerMember) -> Target:
        """Compute a new target if the group epoch is newer and the minimum interval has passed.

        That of a large group is computed later (target.py): until then the old one stays.
        """
        group = self.group
        current = Target(group.assignment_epoch, group.target_of(new.id, new.instance_id))
        if group.assignment_epoch >= group_epoch or not self._may_assign or self.volatile.assigning_epoch is not None:
            return current
        action = self._assignment_of(group_epoch, old, new)
        if self._is_large(new):
            self.volatile = replace(self.volatile, assigning_epoch=group_epoch)
            self.turn.decision.actions.append(action)
            return current
        assignment = assign(action)
        for member_id in sorted(assignment):
            before = group.targets.get(member_id)
            if before is not assignment[member_id] and before != assignment[member_id]:
                self.turn.write(target_record(group.id, member_id, assignment[member_id]))
        self._write_assignment_epoch(group_epoch)
        return Target(group_epoch, assignment[new.id])

    def write_targets(self, part: TargetAssigned) -> None:
        """Write a part of the target of a large group, and with the last one its epoch."""
        group = self.group
        for member_id, instance_id, assignment in part.targets:
            # A member that has left has raised the group epoch, so its partitions are assigned again.
            member = group.members.get(member_id) or group.static_member(instance_id)
            if member is not None and group.targets.get(member.id) != assignment:
                self.turn.write(target_record(group.id, member.id, assignment))
        if part.is_last:
            self._write_assignment_epoch(part.epoch)
            self.end_assignment()

    def end_assignment(self) -> None:
        """Let the next heartbeat compute a target if it is out of date."""
        self.volatile = replace(self.volatile, assigning_epoch=None)

    def _write_assignment_epoch(self, epoch: int) -> None:
        self.turn.write(
            GroupRecord(
                ConsumerGroupTargetAssignmentMetadataKey(self.group.id),
                ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=self.turn.now),
            )
        )

    def _is_large(self, new: ConsumerMember) -> bool:
        if len(self.group.members) > MEMBERS_AT_ONCE_MAX:
            return True
        found = (self.topics.by_name.get(name) for name in self.group.subscribed_names(including=new))
        return sum(topic.partition_count for topic in found if topic is not None) > PARTITIONS_AT_ONCE_MAX

    @property
    def _may_assign(self) -> bool:
        last, interval = self.group.assignment_timestamp, self.settings.assignment_interval_ms
        # An interval of 0 is the workaround after the wall clock was set back far.
        return last == 0 or interval == 0 or self.turn.now >= last + interval

    def _assignor(self, old: ConsumerMember, new: ConsumerMember) -> str:
        """Return the assignor that most members request, or the default if none does."""
        votes = self.group.assignors.copy()
        if old.server_assignor is not None:
            votes[old.server_assignor] -= 1
        if new.server_assignor is not None:
            votes[new.server_assignor] += 1
        served = [name for name in self.settings.assignors if name in ASSIGNORS] or list(ASSIGNORS)
        return max(served, key=lambda name: (votes[name], -served.index(name)))

    def _assignment_of(self, epoch: int, old: ConsumerMember, new: ConsumerMember) -> AssignTarget:
        """Return the group with a new or changed member as input of an assignment."""
        group = self.group
        members, targets = dict(group.members), dict(group.targets)
        replaced = group.static_member(new.instance_id)
        if replaced is not None and replaced.id != new.id:
            del members[replaced.id]
            targets[new.id] = group.target_of(new.id, new.instance_id)
        members[new.id] = new
        return AssignTarget(
            group_id=group.id,
            epoch=epoch,
            assignor=self._assignor(old, new),
            members=members,
            targets=targets,
            resolved=dict(group.resolved),
            topics=self.topics,
        )

    # -- the member's step -------------------------------------------------------------------

    def reconcile(
        self, member: ConsumerMember, target: Target, *, has_new_subscription: bool, owned: Assignment | None
    ) -> ConsumerMember:
        """Move the member a step towards its target, and set the timer for its revocations."""
        if not has_new_subscription and member.is_reconciled_to(target.epoch):
            return member
        group = self.group
        step = Step(
            target_epoch=target.epoch,
            target=target.assignment,
            subscribed=self.topics.ids_of(group.topics_of(member)),
            has_new_subscription=has_new_subscription,
            owned=owned,
            owners=group.owners,
        )
        after = reconcile(member, step)
        if after is member or after == member:
            return member
        self.turn.write(after.assignment_record(group.id))
        # Classic members have their own timers for joining and syncing.
        if after.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.turn.set_timer(revoke_timer(group.id, after.id), after.rebalance_timeout_ms)
            else:
                self.turn.cancel_timer(revoke_timer(group.id, after.id))
        return after
