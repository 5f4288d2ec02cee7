"""The history of a group in `__consumer_offsets`: the owners in each generation, and every commit.

Reads the log from its start, as any consumer may, so it is independent of the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from penstock.groups.consumer.records import ConsumerGroupCurrentMemberAssignmentKey
from penstock.groups.records import GroupMetadataKey, OffsetCommitKey, decode

INTERNAL_TOPIC = "__consumer_offsets"
_INT16, _INT32 = Struct(">h"), Struct(">i")


@dataclass
class Audit:
    """The history of one group, and its faults."""

    group: str
    generations: int = 0
    """Generations of the classic protocol, or member epochs of the consumer protocol."""
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    commits: int = 0
    faults: list[str] = field(default_factory=list)
    _generation: int = 0
    _held: dict[str, set[tuple[Any, int]]] = field(default_factory=dict)

    def see(self, key: Any, value: Any) -> None:
        if isinstance(key, OffsetCommitKey) and key.group == self.group and value is not None:
            self._commit((key.topic, key.partition), value.offset)
        elif isinstance(key, GroupMetadataKey) and key.group == self.group and value is not None:
            self._classic_generation(value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and key.group_id == self.group:
            self._member_epoch(key.member_id, value)

    def _commit(self, place: tuple[str, int], offset: int) -> None:
        self.commits += 1
        if offset < self.committed.get(place, 0):
            self.faults.append(f"{place} decreased from {self.committed[place]} to {offset}")
        self.committed[place] = offset

    def _classic_generation(self, value: Any) -> None:
        if value.generation < self._generation:
            self.faults.append(f"generation {value.generation} after {self._generation}")
        self._generation = value.generation
        self.generations += 1
        owners: dict[tuple[str, int], str] = {}
        for member in value.members:
            for place in _assigned(member.assignment):
                other = owners.setdefault(place, member.member_id)
                if other != member.member_id:
                    self.faults.append(f"{place} has two owners in generation {value.generation}")

    def _member_epoch(self, member: str, value: Any) -> None:
        if value is None:
            self._held.pop(member, None)
            return
        self.generations += 1
        rows = (*value.assigned_partitions, *value.partitions_pending_revocation)
        mine = {(row.topic_id, partition) for row in rows for partition in row.partitions}
        for other, theirs in self._held.items():
            if other != member and mine & theirs:
                self.faults.append(f"{mine & theirs} is owned by two members in epoch {value.member_epoch}")
        self._held[member] = mine


def _assigned(assignment: bytes) -> Iterator[tuple[str, int]]:
    """Return the partitions of a ConsumerProtocolAssignment. Some clients append their own data."""
    if not assignment:
        return
    position = 2
    (topics,) = _INT32.unpack_from(assignment, position)
    position += 4
    for _ in range(topics):
        (size,) = _INT16.unpack_from(assignment, position)
        topic = assignment[position + 2 : position + 2 + size].decode()
        position += 2 + size
        (count,) = _INT32.unpack_from(assignment, position)
        for index in range(count):
            yield topic, _INT32.unpack_from(assignment, position + 4 + 4 * index)[0]
        position += 4 + 4 * count


def audit(bootstrap: str, group: str) -> Audit:
    """Read all records about a group."""
    found = Audit(group)
    for message in _history(bootstrap):
        record = decode(message.key(), message.value())
        if record is not None:
            found.see(record.key, record.value)
    return found


def _history(bootstrap: str) -> Iterator[Any]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "enable.partition.eof": True})
    try:
        partitions = reader.list_topics(INTERNAL_TOPIC, timeout=60).topics[INTERNAL_TOPIC].partitions
        reader.assign([TopicPartition(INTERNAL_TOPIC, index, OFFSET_BEGINNING) for index in partitions])
        left = set(partitions)
        while left:
            for message in reader.consume(1000, timeout=1):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        reader.close()
