"""Committed offsets of each group and partition, and their retention.

`Offsets` is the state, changed only by records and markers; the functions decide. A commit is a
record, its deletion a tombstone. Offsets of open transactions are in pending_offsets.py.
Refuses what the group refuses, metadata that is too long, and, if the client asks for it, unstable offsets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import Any, Final
from uuid import UUID

from penstock.groups.commands import (
    COMMITTED,
    ForgetTopics,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetToCommit,
    TxnOffsetCommit,
)
from penstock.groups.consumer.errors import StaleMemberEpoch
from penstock.groups.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
)
from penstock.groups.group import CommitCheck, Group
from penstock.groups.pending_offsets import PendingOffsets
from penstock.groups.records import NO_TIMESTAMP, GroupRecord, OffsetCommitKey, OffsetCommitValue
from penstock.groups.settings import GroupSettings
from penstock.groups.turn import Turn
from penstock.model.errors import NO_ERROR, Refusal
from penstock.wire.fields import ZERO_UUID

TIMESTAMP_MAX: Final = 2**63 - 1
ByPartition = Mapping[int, OffsetCommitValue]
_ONE_IS_FINE = [NO_ERROR]
# Builds a named tuple from all its fields in half the time; used for every commit.
_record: Callable[[tuple[Any, Any]], GroupRecord] = partial(tuple.__new__, GroupRecord)
_key: Callable[[tuple[str, str, int]], OffsetCommitKey] = partial(tuple.__new__, OffsetCommitKey)
_value: Callable[[tuple[int, str, int, int, int, UUID]], OffsetCommitValue] = partial(tuple.__new__, OffsetCommitValue)


class Offsets:
    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        self.pending = PendingOffsets()

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is not None:
            self._put(key, value)
            if self.pending:
                self.pending.supersede(key)
            return
        self.pending.drop(key)
        topics = self.by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self.by_group.pop(key.group, None)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for key, value in self.pending.end(producer_id, is_commit=is_commit):
            self._put(key, value)

    def _put(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        group, topic, partition = key
        try:
            self.by_group[group][topic][partition] = value
        except KeyError:
            self.by_group.setdefault(group, {}).setdefault(topic, {})[partition] = value

    def has_offsets(self, group_id: str) -> bool:
        """Return whether the group has offsets, committed or pending."""
        return group_id in self.by_group or bool(self.pending.of(group_id))

    def of(self, group_id: str) -> Mapping[str, ByPartition]:
        return self.by_group.get(group_id, {})

    def all_of(self, group_id: str) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        for topic, partitions in self.of(group_id).items():
            for partition, value in partitions.items():
                yield OffsetCommitKey(group_id, topic, partition), value

    def all_values(self) -> Iterator[tuple[OffsetCommitKey, list[OffsetCommitValue]]]:
        """Yield each partition of every group with its committed and pending values."""
        for group_id in dict.fromkeys([*self.by_group, *self.pending.groups]):
            topics = self.of(group_id).keys() | {key.topic for key in self.pending.of(group_id)}
            yield from self._values(group_id, topics)

    def of_topics(self, topics: Set[str]) -> Iterator[tuple[OffsetCommitKey, list[OffsetCommitValue]]]:
        """Yield the same for a few topics, without visiting the others, of which there may be many."""
        for group_id in dict.fromkeys([*self.by_group, *self.pending.groups]):
            yield from self._values(group_id, topics)

    def _values(self, group_id: str, topics: Set[str]) -> Iterable[tuple[OffsetCommitKey, list[OffsetCommitValue]]]:
        committed = self.of(group_id)
        values = {
            OffsetCommitKey(group_id, topic, partition): [value]
            for topic in sorted(committed.keys() & topics)
            for partition, value in committed[topic].items()
        }
        for key, by_producer in self.pending.of(group_id).items():
            if key.topic in topics:
                values.setdefault(key, []).extend(value for value in by_producer.values() if value is not None)
        return values.items()

    def keys_of(self, group_id: str) -> Iterator[OffsetCommitKey]:
        """Yield the keys whose tombstones delete all offsets of the group."""
        yield from dict.fromkeys([*(key for key, _ in self.all_of(group_id)), *self.pending.of(group_id)])


def commit_to_unknown_group(command: OffsetCommit, turn: Turn) -> None:
    """Write the offsets; a commit by a consumer that is not a group member creates the group."""
    records, reply = commit_records(None, command, now=turn.now, settings=turn.settings)
    turn.decision.records += records
    turn.answer(reply)


def commit_records(
    group: Group | None, command: OffsetCommit, *, now: int, settings: GroupSettings
) -> tuple[list[GroupRecord], OffsetCommitReply]:
    """Return the records of a commit and its reply. Reads the group, never the offsets committed so far."""
    try:
        check = _check_committer(group, command)
    except Refusal as refusal:
        return [], OffsetCommitReply((refusal.code,) * len(command.offsets))
    group_id = command.group_id
    expire_timestamp = NO_TIMESTAMP if command.retention_ms < 0 else min(now + command.retention_ms, TIMESTAMP_MAX)
    records, errors = [], []
    for offset in command.offsets:
        error = _check_offset(offset, check, settings)
        errors.append(error)
        if error == NO_ERROR:
            records.append(_commit_record(group_id, offset, now, expire_timestamp))
    return records, COMMITTED if errors == _ONE_IS_FINE else OffsetCommitReply(tuple(errors))


def commit_in_transaction(group: Group | None, command: TxnOffsetCommit, turn: Turn) -> None:
    """Write the offsets as part of a transaction; the caller has verified that it includes this partition."""
    try:
        check = _check_producer(group, command)
    except Refusal as refusal:
        turn.answer(OffsetCommitReply((_for_producer(refusal.code),) * len(command.offsets)))
        return
    turn.decision.transaction = command.transaction
    errors = []
    for offset in command.offsets:
        error = _check_offset(offset, check, turn.settings)
        errors.append(_for_producer(error))
        if error == NO_ERROR:
            turn.write(_commit_record(command.group_id, offset, turn.now, NO_TIMESTAMP))
    turn.answer(OffsetCommitReply(tuple(errors)))


def _for_producer(error: int) -> int:
    # Producers do not know member epochs.
    return IllegalGeneration.code if error == StaleMemberEpoch.code else error


def _check_producer(group: Group | None, command: TxnOffsetCommit) -> CommitCheck | None:
    if group is not None:
        return group.commit_check(
            member_id=command.member_id,
            instance_id=command.instance_id,
            generation=command.generation,
            is_transactional=True,
        )
    if command.generation < 0:
        return None
    raise IllegalGeneration


def _check_offset(offset: OffsetToCommit, check: CommitCheck | None, settings: GroupSettings) -> int:
    metadata = offset.metadata
    if metadata and len(metadata) > settings.offset_metadata_size_max:
        return OffsetMetadataTooLarge.code
    if check is not None:
        try:
            check(offset.topic_id, offset.partition)
        except Refusal as refusal:
            return refusal.code
    return NO_ERROR


def _check_committer(group: Group | None, command: OffsetCommit) -> CommitCheck | None:
    # As in Kafka, the empty group id is valid here: some consumers commit without ever joining a group.
    if group is not None:
        return group.commit_check(
            member_id=command.member_id,
            instance_id=command.instance_id,
            generation=command.generation,
            knows_epochs=command.knows_member_epochs,
        )
    if command.generation < 0:
        return None
    raise GroupIdNotFound if command.knows_member_epochs else IllegalGeneration


def _commit_record(group_id: str, offset: OffsetToCommit, now: int, expire_timestamp: int) -> GroupRecord:
    # The only record version with an expiry has no field for these two, so that a restart would lose them.
    topic, partition, committed, topic_id, leader_epoch, metadata = offset
    if expire_timestamp != NO_TIMESTAMP:
        leader_epoch, topic_id = -1, ZERO_UUID
    return _record(
        (
            _key((group_id, topic, partition)),
            _value((committed, metadata or "", now, leader_epoch, expire_timestamp, topic_id)),
        )
    )


def fetch(offsets: Offsets, group: Group | None, command: OffsetFetch, turn: Turn) -> None:
    """Answer with the committed offsets. An unknown group is not an error: it has none."""
    if group is not None:
        try:
            group.check_fetch(member_id=command.member_id, member_epoch=command.member_epoch)
        except Refusal as refusal:
            turn.answer(OffsetFetchReply(error=refusal.code))
            return
    committed = offsets.of(command.group_id)
    pending = offsets.pending.of(command.group_id) if command.require_stable else ()
    unstable = frozenset((key.topic, key.partition) for key in pending)
    if command.topics is None:
        all_topics = tuple((name, tuple(values.items())) for name, values in committed.items())
        turn.answer(OffsetFetchReply(topics=all_topics, unstable=unstable))
        return
    nothing: ByPartition = {}
    turn.answer(
        OffsetFetchReply(
            topics=tuple(
                (name, tuple((index, committed.get(name, nothing).get(index)) for index in indexes))
                for name, indexes in command.topics
            ),
            unstable=unstable,
        )
    )


def delete(offsets: Offsets, group: Group | None, command: OffsetDelete, turn: Turn) -> None:
    """Delete offsets of topics that no group member subscribes to."""
    try:
        if not command.group_id:
            raise InvalidGroupId
        if group is None:
            raise GroupIdNotFound
        group.check_offset_delete()
    except Refusal as refusal:
        turn.answer(OffsetDeleteReply(error=refusal.code))
        return
    turn.decision.is_atomic = False
    committed = offsets.of(command.group_id)
    errors = []
    for topic, indexes in command.topics:
        if group.is_subscribed_to(topic):
            errors.append(GroupSubscribedToTopic.code)
            continue
        errors.append(NO_ERROR)
        for index in indexes:
            key = OffsetCommitKey(command.group_id, topic, index)
            if index in committed.get(topic, {}) or key in offsets.pending:
                turn.write(GroupRecord(key, None))
    turn.answer(OffsetDeleteReply(errors=tuple(errors)))


def forget_topics(offsets: Offsets, command: ForgetTopics, turn: Turn) -> None:
    """Delete the offsets of deleted topics, but not those of a new topic with the same name."""
    turn.decision.is_atomic = False
    # Several topics with the same name may have been created and deleted one after the other.
    deleted: dict[str, set[UUID]] = {}
    for name, topic_id in command.topics:
        deleted.setdefault(name, {ZERO_UUID}).add(topic_id)
    for key, values in offsets.of_topics(deleted.keys()):
        # A tombstone deletes all values of the key, so a value of a new topic keeps the old ones for now.
        if all(value.topic_id in deleted[key.topic] for value in values):
            turn.write(GroupRecord(key, None))
    turn.answer(len(turn.decision.records))


def is_expired(group: Group, value: OffsetCommitValue, turn: Turn) -> bool:
    start = group.retention_start(value)
    if start is None:
        return False
    if value.expire_timestamp != NO_TIMESTAMP:
        return turn.now >= value.expire_timestamp
    return turn.now - start >= turn.settings.offsets_retention_ms


def expire(offsets: Offsets, group: Group, turn: Turn) -> bool:
    """Delete the group's expired offsets; return True if none are left, not even pending ones."""
    none_left = not offsets.pending.of(group.id)
    for key, value in offsets.all_of(group.id):
        if is_expired(group, value, turn) and not group.is_subscribed_to(key.topic) and key not in offsets.pending:
            turn.write(GroupRecord(key, None))
        else:
            none_left = False
    return none_left
