"""Planted bugs of share groups. See ablations.py."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any
from unittest.mock import patch

from penstock.groups.share.group import StatePartitions
from penstock.groups.share.groups import ShareGroups
from penstock.model.errors import InvalidRequest
from penstock.shares import shard as shard_module
from penstock.shares.acquiring import Acquisition
from penstock.shares.commands import InitializeState, Prune, StateReply, WriteState
from penstock.shares.errors import FencedStateEpoch
from penstock.shares.flight import Flight
from penstock.shares.flight_ranges import FlightRange, StateWrite
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.records import ShareRecord, ShareSnapshot, ShareUpdate
from penstock.shares.sessions import ShareSessions
from penstock.shares.shard import ShareShard
from penstock.shares.states import FINAL_STATES, AcknowledgeType, RecordState, StateRange
from penstock_sim.bugs import Patch, bug, replaced


@bug
def outcome_answered_before_it_is_written() -> list[Patch]:
    """Answer an acknowledgement at once, and write it with the next change."""

    async def acknowledged(self: LedSharePartition, flight: Flight, write: StateWrite) -> None:
        flight.commit(write)
        flight._unwritten += write.ranges
        flight.written_start = min(flight.written_start, flight.start - 1)

    return [patch.object(LedSharePartition, "_acknowledged", acknowledged)]


@bug
def snapshot_without_finished_ranges() -> list[Patch]:
    """Leave the ranges out of a snapshot of share-group state."""

    def snapshot(original: Any) -> Any:
        return lambda self, state, now: original(self, state, now)._replace(ranges=())

    return [replaced(ShareShard, "_snapshot", snapshot)]


@bug
def written_ranges_forgotten_on_load() -> list[Patch]:
    """Load the start offset of a share partition, but not what was finished behind it."""

    def load(start_offset: int, ranges: Any, *, settings: Any = None) -> Flight:
        flight = Flight(start_offset, settings=settings)
        flight.written_start = start_offset
        return flight

    return [patch.object(Flight, "load", staticmethod(load))]


# -- the start offset ----------------------------------------------------------------------------


@bug
def start_offset_passes_a_released_record() -> list[Patch]:
    """Move the start offset past released records, too (KAFKA-19859)."""

    def advance(self: Flight) -> None:
        for each in list(self.ranges):
            is_released = each.state is RecordState.AVAILABLE and each.count and each.pending is None
            if each.state not in FINAL_STATES and not is_released:
                break
            self.finished -= each.size * (each.state in FINAL_STATES)
            self.start = each.last + 1
            self.ranges.remove(each)
        self.available_from = max(self.available_from, self.start)

    return [patch.object(Flight, "_advance_start", advance)]


@bug
def written_start_offset_moves_back() -> list[Patch]:
    """Take the start offset of a delayed write as the new one."""

    def merged(original: Any) -> Any:
        return lambda value, update: original(value, update)._replace(start_offset=update.start_offset)

    return [replaced(shard_module, "_merged", merged)]


@bug
def repeated_initialization_resets_the_state() -> list[Patch]:
    """Initialize state again when the request is repeated."""

    def initialize(original: Any) -> Any:
        def run(self: ShareShard, command: InitializeState, now: int) -> tuple[list[ShareRecord], StateReply]:
            state = self.states.get(command.key)
            if state is None or command.state_epoch != state.value.state_epoch:
                written: tuple[list[ShareRecord], StateReply] = original(self, command, now)
                return written
            value = state.value._replace(start_offset=command.start_offset, ranges=(), write_timestamp=now)
            return [ShareRecord(command.key, value)], StateReply()

        return run

    return [replaced(ShareShard, "_initialize", initialize)]


@bug
def altered_offsets_keep_the_state_epoch() -> list[Patch]:
    """Alter offsets without a new state epoch (KAFKA-20910)."""

    def alter(original: Any) -> Any:
        def run(self: ShareGroups, command: Any, turn: Any) -> None:
            original(self, command, turn)
            turn.decision.records.clear()
            for position, (ticket, reply) in enumerate(turn.decision.replies):
                if not reply.error:
                    turn.decision.replies[position] = ticket, _with_epoch(reply, reply.state_epoch - 1)

        return run

    def initialize(original: Any) -> Any:
        def run(self: ShareShard, command: InitializeState, now: int) -> tuple[list[ShareRecord], StateReply]:
            state = self.states.get(command.key)
            if state is None or command.start_offset < 0:
                written: tuple[list[ShareRecord], StateReply] = original(self, command, now)
                return written
            value = state.value._replace(start_offset=command.start_offset, ranges=(), write_timestamp=now)
            return [ShareRecord(command.key, value)], StateReply()

        return run

    return [replaced(ShareGroups, "alter_offsets", alter), replaced(ShareShard, "_initialize", initialize)]


def _with_epoch(reply: Any, epoch: int) -> Any:
    from dataclasses import replace

    return replace(reply, state_epoch=epoch)


@bug
def added_partitions_start_at_the_end() -> list[Patch]:
    """Apply share.auto.offset.reset to partitions that are added later, too, as Kafka 4.3 does."""
    return [patch.object(StatePartitions, "added", lambda self, partitions: {})]


# -- loading -------------------------------------------------------------------------------------


@bug
def ranges_overlap_in_the_state() -> list[Patch]:
    """Add the ranges of an update without cutting those that they overlap (KAFKA-19954)."""

    def combine(ranges: Iterable[StateRange], added: Iterable[StateRange], *, start_offset: int) -> Any:
        return tuple(sorted(each for each in (*ranges, *added) if each.last >= start_offset))

    return [patch.object(shard_module, "combine", combine)]


@bug
def gap_before_finished_ranges_forgotten() -> list[Patch]:
    """Load a share partition as if the offsets before its first finished range were finished."""

    def load(original: Any) -> Any:
        def run(start_offset: int, ranges: Iterable[StateRange], *, settings: Any = None) -> Flight:
            known = list(ranges)
            first = known[0].first if known else start_offset
            flight: Flight = original(max(start_offset, first), known, settings=settings)
            return flight

        return staticmethod(run)

    return [replaced(Flight, "load", load)]


# -- locks and sessions --------------------------------------------------------------------------


@bug
def release_stops_at_another_member() -> list[Patch]:
    """Release the records of a closed session only up to the first that another member holds (KAFKA-19953)."""

    def release(self: Flight, member: str) -> StateWrite | None:
        held: list[FlightRange] = []
        for each in self.ranges:
            if each.member == member:
                each.deadline = -inf
                held.append(each)
            elif each.member is not None:
                break
        return self._release([each for each in held if each.pending is None])

    return [patch.object(Flight, "release", release)]


@bug
def window_without_a_limit() -> list[Patch]:
    """Acquire new records although the window is full (KAFKA-19808)."""
    return [patch.object(Flight, "has_room", property(lambda self: True))]


@bug
def old_connection_closes_the_new_session() -> list[Patch]:
    """Keep a share session with the connection that opened it first (KAFKA-19950)."""
    return [patch.object(ShareSessions, "_leave_connection", lambda self, session: None)]


@bug
def release_written_without_its_delivery() -> list[Patch]:
    """Write the delivery count that a released record had before it was delivered (KAFKA-19972)."""

    def begin(original: Any) -> Any:
        def run(self: Flight, each: FlightRange, target: RecordState, write: StateWrite) -> None:
            original(self, each, target, write)
            if target is RecordState.AVAILABLE:
                write.ranges[-1] = write.ranges[-1]._replace(delivery_count=each.count - 1)

        return run

    return [replaced(Flight, "_begin", begin)]


@bug
def renewed_lock_expires() -> list[Patch]:
    """Answer RENEW without a new lock."""

    def acknowledge(original: Any) -> Any:
        def run(self: Flight, member: str, batches: Any, now: float) -> StateWrite | None:
            if any(AcknowledgeType.RENEW in batch.types for batch in batches):
                self._check(member, batches)
                return None
            write: StateWrite | None = original(self, member, batches, now)
            return write

        return run

    return [replaced(Flight, "acknowledge", acknowledge)]


# -- the state log -------------------------------------------------------------------------------


@bug
def pruned_below_a_live_snapshot() -> list[Patch]:
    """Delete all records before the current one, as if every state had just been written."""

    def prune(original: Any) -> Any:
        def run(self: ShareShard, now: int) -> Any:
            decision = original(self, now)
            decision.actions[:] = [Prune(self.position)]
            return decision

        return run

    return [replaced(ShareShard, "_prune", prune)]


@bug
def tombstone_blocks_pruning() -> list[Patch]:
    """Never prune beyond the last snapshot of a deleted state (KAFKA-19695)."""
    blocked: dict[int, int] = {}

    def apply(original: Any) -> Any:
        def run(self: ShareShard, record: ShareRecord) -> None:
            state = self.states.get(record.key)
            if record.value is None and state is not None:
                blocked[id(self)] = min(state.snapshot_at, blocked.get(id(self), state.snapshot_at))
            original(self, record)

        return run

    def prune(original: Any) -> Any:
        def run(self: ShareShard, now: int) -> Any:
            decision = original(self, now)
            limit = blocked.get(id(self))
            decision.actions[:] = [
                Prune(each.offset if limit is None else min(each.offset, limit)) for each in decision.actions
            ]
            return decision

        return run

    return [replaced(ShareShard, "apply", apply), replaced(ShareShard, "_prune", prune)]


@bug
def old_leader_still_writes() -> list[Patch]:
    """Accept writes of share-group state from leaders of earlier epochs."""

    def write(self: ShareShard, command: WriteState, now: int) -> tuple[list[ShareRecord], StateReply]:
        if command.key not in self.states:
            raise InvalidRequest(shard_module.WRITE_UNINITIALIZED)
        value: ShareSnapshot = self.states[command.key].value
        if command.state_epoch < value.state_epoch:
            raise FencedStateEpoch
        update = ShareUpdate(
            snapshot_epoch=value.snapshot_epoch,
            leader_epoch=command.leader_epoch,
            start_offset=command.start_offset,
            ranges=command.ranges,
            complete_count=command.complete_count,
        )
        return [ShareRecord(command.key, update)], StateReply()

    return [patch.object(ShareShard, "_write", write)]


# -- transactions and dead letters ---------------------------------------------------------------


@bug
def aborted_batch_blocks_the_start_offset() -> list[Patch]:
    """Do not archive the records of aborted transactions."""

    def take(original: Any) -> Any:
        def run(self: Acquisition, batch: Any, position: int) -> None:
            if batch.is_readable:
                original(self, batch, position)

        return run

    return [replaced(Acquisition, "_take_batch", take)]


@bug
def archived_without_a_dead_letter() -> list[Patch]:
    """Archive records at the delivery limit, and rejected ones, without their dead-letter record."""

    def outcome(original: Any) -> Any:
        def run(self: Flight, each: FlightRange, kind: int) -> RecordState:
            found: RecordState = original(self, each, kind)
            return RecordState.ARCHIVED if found is RecordState.ARCHIVING else found

        return run

    return [replaced(Flight, "_outcome", outcome)]
