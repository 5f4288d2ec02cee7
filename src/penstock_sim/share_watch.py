"""Invariants of share groups about the state of nodes: locks and windows of leaders, and the log of share-group state.

Applies every committed record of `__share_group_state` to a model that keeps one entry for each offset, and compares
the coordinators with it at the end. Invariants 73, 75-79; 80 with the dead-letter records that a client has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.model.topic import SHARE_GROUP_STATE
from penstock.replication.partition import Partition
from penstock.shares import records
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.records import ShareRecord, ShareSnapshot, ShareUpdate
from penstock.shares.states import RecordState, SharePartitionKey, StateRange
from penstock.wire.batch import iter_batches
from penstock.wire.records import decode_batch
from penstock_sim.host import Host

READ_SIZE: Final = 1 << 20
BATCH_RECORDS_MAX: Final = 100
"""More than any client of the simulator writes in one batch."""
EXPIRY_SLACK_MS: Final = 250
"""How late a timer of a node that is not paused may be."""


@dataclass(slots=True)
class ModelState:
    """The state of a share partition, offset by offset."""

    state_epoch: int
    leader_epoch: int
    start: int
    snapshot_at: int
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Delivery count and state."""

    def add(self, ranges: Sequence[StateRange]) -> None:
        for first, last, state, count in ranges:
            for offset in range(first, last + 1):
                self.offsets[offset] = max(self.offsets.get(offset, (-1, -1)), (count, int(state)))
        self.offsets = {offset: value for offset, value in self.offsets.items() if offset >= self.start}


class StateModel:
    """One partition of `__share_group_state`."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self.next = 0
        self.states: dict[SharePartitionKey, ModelState] = {}
        self.archived: set[tuple[SharePartitionKey, int]] = set()

    def apply(self, offset: int, record: ShareRecord) -> None:
        key, value = record
        name = f"{key.group} {key.topic_id.hex[:6]}-{key.partition}"
        before = self.states.get(key)
        if value is None:
            self.states.pop(key, None)
        elif isinstance(value, ShareSnapshot):
            if before is not None:
                if value.state_epoch < before.state_epoch or value.leader_epoch < before.leader_epoch:
                    self._complain(f"inv_77: a snapshot of {name} has an older epoch than the state")
                if value.state_epoch == before.state_epoch and value.start_offset < before.start:
                    self._complain(
                        f"inv_75: the start offset of {name} went from {before.start} to {value.start_offset}"
                    )
            self.states[key] = ModelState(value.state_epoch, value.leader_epoch, value.start_offset, offset)
            self.states[key].add(value.ranges)
        elif before is not None:
            if value.leader_epoch < before.leader_epoch:
                self._complain(
                    f"inv_77: {name}: a leader of epoch {value.leader_epoch} wrote after one of {before.leader_epoch}"
                )
            before.leader_epoch = max(before.leader_epoch, value.leader_epoch)
            before.start = max(before.start, value.start_offset)
            before.add(value.ranges)
        for first, last, state, count in value.ranges if value is not None else ():
            if state == RecordState.ARCHIVED and count:
                self.archived.update((key, each) for each in range(first, last + 1))


class ShareWatch:
    def __init__(self, hosts: Sequence[Host], complaints: list[str], *, locks_max: int, is_lossy: bool) -> None:
        self._hosts = hosts
        self._complaints = complaints
        self._locks_max = locks_max
        self._is_lossy = is_lossy
        """Committed data of a single node may be lost, which includes share-group state."""
        self.models: dict[int, StateModel] = {}

    def _complain(self, what: str) -> None:
        if what not in self._complaints:
            self._complaints.append(what)

    def check(self) -> None:
        """Look at all nodes; called several times in a simulated second."""
        for host in self._hosts:
            if not host.is_up or host.node is None:
                continue
            context = host.node.context
            sessions = context.shares.leader.sessions
            members = {(key.group, key.member) for key in sessions}
            for led in context.shares.leader:
                self._check_flight(host, led, members)
            for index, partition in _led(host):
                if not self._is_lossy:
                    self._follow(index, partition)

    def _check_flight(self, host: Host, led: LedSharePartition, members: set[tuple[str, str]]) -> None:
        flight = led.flight
        if flight is None or not led.is_current(led.partition):
            return
        name = f"{led.key.group} {led.partition.topic}-{led.key.partition} on {host.name}"
        try:
            flight.validate()
        except AssertionError as problem:
            self._complain(f"inv_73: {name}: {problem}")
        if flight.end - flight.start > self._locks_max + BATCH_RECORDS_MAX:
            self._complain(f"inv_78: {name} has {flight.end - flight.start} records in flight")
        for each in flight.ranges:
            if each.member is not None and each.pending is None and (led.key.group, each.member) not in members:
                self._complain(f"inv_79: {name}: {each.member} holds offset {each.first} without a session")

    # -- the state log -----------------------------------------------------------------------

    def _follow(self, index: int, partition: Partition) -> None:
        model = self.models.setdefault(index, StateModel(self._complain))
        start = partition.log.start_offset
        if start > model.next:
            # Pruned before it was seen: what the log has left must be the whole state.
            self.models[index] = model = _successor(model, self._complain, start)
        for offset, record in _read(partition, model.next):
            model.apply(offset, record)
            model.next = offset + 1

    def compare(self, *, prunes: bool) -> None:
        """Compare the coordinators with the model, once nothing is written any more."""
        if self._is_lossy:
            return
        self.check()
        for host in self._hosts:
            if not host.is_up or host.node is None:
                continue
            coordinator = host.node.context.shares.coordinator
            for index, partition in _led(host):
                shard = coordinator.shard(index)
                model = self.models.get(index)
                if shard is None or model is None:
                    continue
                stored = {
                    key: (state.value.state_epoch, state.value.start_offset, _by_offset(state.value.ranges))
                    for key, state in shard.states.items()
                }
                self._expect(f"the coordinator of {SHARE_GROUP_STATE}-{index}", stored, _summary(model))
                replayed = StateModel(lambda what: None)
                for offset, record in _read(partition, partition.log.start_offset):
                    replayed.apply(offset, record)
                self._expect(f"the log of {SHARE_GROUP_STATE}-{index}", _summary(replayed), _summary(model))
                oldest = min((state.snapshot_at for state in model.states.values()), default=model.next)
                if prunes and partition.log.start_offset < oldest - _batch_slack(partition, oldest):
                    self._complain(
                        f"inv_76: {SHARE_GROUP_STATE}-{index} starts at {partition.log.start_offset}, but nothing "
                        f"below {oldest} is needed"
                    )

    def _expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._complain(f"inv_76: {what} has {str(found)[:300]}, expected {str(expected)[:300]}")


def _batch_slack(partition: Partition, oldest: int) -> int:
    """Return how far a shard's position may be before the snapshot: it knows only where its batch begins."""
    found = partition.read(oldest, max_bytes=1, committed_only=False, at_least_one=True)
    if found is None:
        return 0
    first = next(iter_batches(found.file.read(found.size, found.position)))
    return oldest - int.from_bytes(first[:8], "big")


def _led(host: Host) -> Iterator[tuple[int, Partition]]:
    assert host.node is not None
    topic = host.node.context.replicas.by_name.get(SHARE_GROUP_STATE.encode())
    for index, partition in sorted(topic.partitions.items()) if topic is not None else ():
        if partition.is_leader and partition.mark_is_known and partition.log.damage is None:
            yield index, partition


def _successor(model: StateModel, complain: Callable[[str], None], start: int) -> StateModel:
    successor = StateModel(complain)
    successor.archived = model.archived
    successor.next = start
    return successor


def _read(partition: Partition, offset: int) -> Iterator[tuple[int, ShareRecord]]:
    while offset < partition.high_watermark:
        found = partition.read(offset, max_bytes=READ_SIZE, committed_only=False, at_least_one=True)
        if found is None:
            return
        before = offset
        for batch in iter_batches(found.file.read(found.size, found.position)):
            for record in decode_batch(batch):
                if record.offset < offset:
                    continue
                decoded = None if record.key is None else records.decode(record.key, record.value)
                if decoded is not None:
                    yield record.offset, decoded
                offset = record.offset + 1
        if offset == before:
            return


def _by_offset(ranges: Sequence[StateRange]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in ranges:
        for offset in range(first, last + 1):
            found[offset] = (count, int(state)) if offset not in found else (-1, -1)
    return found


def _summary(model: StateModel) -> dict[SharePartitionKey, tuple[int, int, dict[int, tuple[int, int]]]]:
    return {
        key: (state.state_epoch, state.start, dict(sorted(state.offsets.items())))
        for key, state in model.states.items()
    }


__all__ = ["ModelState", "ShareUpdate", "ShareWatch", "StateModel"]
