"""Planted bugs, each enabled by name: proof that the checkers detect what they should.

Every bug patches production code from outside; that code does not refer to it. docs/internals/simulator.md lists which
checker finds which bug, and after how many seeds. Bugs that need several nodes are in cluster_ablations.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.shard_runner import ShardRunner
from penstock.groups.classic.group import ClassicGroup
from penstock.membership.lifecycle import Lifecycle
from penstock.membership.producer_ids import ProducerIds
from penstock.metadata import snapshot as metadata_snapshot
from penstock.metadata.records import PartitionRecord
from penstock.model.errors import NO_ERROR, NotEnoughReplicasAfterAppend, Refusal
from penstock.replication import follower
from penstock.replication.marks import Marks
from penstock.replication.partition import Partition
from penstock.storage import checked_ranges, damage, epoch_recovery, producer_snapshots, recovery
from penstock.storage.directory import LogDirectory
from penstock.storage.flush import Flusher
from penstock.storage.held_partitions import HeldPartitions, Holding
from penstock.storage.journal import FILE_NAMES, Journal
from penstock.storage.kept_tails import empty_and_remove
from penstock.storage.log import Log
from penstock.storage.log_reader import LogReader
from penstock.storage.producer_state import ProducerState
from penstock.storage.quarantine import Quarantine
from penstock.storage.saved_offsets import SavedOffsets
from penstock.storage.scan import scan_batches
from penstock.storage.store import LogStore
from penstock.transactions import ending, partitions
from penstock.transactions import init_producer_id as taking_over
from penstock.transactions.commands import MarkersWritten
from penstock.transactions.marker_driver import MarkerDriver
from penstock_sim import cluster_ablations, compaction_ablations, security_ablations, share_ablations
from penstock_sim.bugs import BUGS, Patch, bug, replaced

__all__ = ["BUGS", "cluster_ablations", "compaction_ablations", "planted", "security_ablations", "share_ablations"]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run with a planted bug; with an empty name, without one."""
    with ExitStack() as stack:
        if name:
            for each in BUGS[name]():
                stack.enter_context(each)
        yield


# -- durability ----------------------------------------------------------------------------


@bug
def ack_before_fsync() -> list[Patch]:
    """Acknowledge acks=all when the records are written, not durable."""

    def wait_durable(self: Partition, waiting: Any) -> None:
        waiting.done(NO_ERROR)

    return [patch.object(Partition, "wait_durable", wait_durable)]


@bug
def mark_ahead_of_the_disk() -> list[Patch]:
    """Advance the high watermark by written instead of durable records."""

    def advance(self: Partition) -> None:
        if self.leadership is not None and self.log.end_offset > self.high_watermark:
            self._set_high_watermark(self.log.end_offset)

    def append(original: Any) -> Any:
        def appended(self: Partition, *arguments: Any, **named: Any) -> Any:
            result = original(self, *arguments, **named)
            self.advance()
            return result

        return appended

    return [patch.object(Partition, "advance", advance), replaced(Partition, "append", append)]


@bug
def failed_sync_tried_again() -> list[Patch]:
    """Treat a failed sync as a transient error."""

    def forgiving(original: Any) -> Any:
        return lambda self, generation, job, size, error: original(self, generation, job, size, None)

    return [replaced(Flusher, "_finished", forgiving)]


@bug
def failed_sync_forgotten() -> list[Patch]:
    """After a failed sync and a restart, treat the page cache as durable."""
    return [patch.object(LogDirectory, "failed_before", property(lambda self: False, lambda self, value: None))]


@bug
def recovery_point_too_far() -> list[Patch]:
    """Recover only from the written, not the synced, position after a crash."""
    return [patch.object(Log, "recovery_point", property(lambda self: self.end_offset))]


@bug
def new_folders_not_synced() -> list[Patch]:
    """Never sync the name of a new partition's directory."""
    return [patch.object(LogStore, "_sync_names_with_first_batch", lambda self, log: None)]


@bug
def journal_not_redone() -> list[Patch]:
    """Ignore the journal at startup."""

    def replay(self: Journal) -> list[str]:
        for name in FILE_NAMES:
            empty_and_remove(self._disk, f"{self._folder}/{name}")
        return []

    return [patch.object(Journal, "replay", replay)]


@bug
def cuts_not_struck_out() -> list[Patch]:
    """Do not remove truncated, renamed or deleted files from the journal."""
    return [patch.object(Journal, "_invalidate", lambda self, paths, finish_file: None)]


@bug
def deleted_records_forgotten() -> list[Patch]:
    """Keep log start offsets only in memory."""
    return [
        patch.object(LogStore, "checkpoint_log_starts", lambda self: None),
        patch.object(SavedOffsets, "moved", lambda self: None),
    ]


# -- damage --------------------------------------------------------------------------------


@bug
def rot_is_cut() -> list[Patch]:
    """Truncate a log at the first bad batch during recovery, even if good batches follow."""

    def truncate(disk: Any, state: Any, index: int, stopped: Any, *, known_end: int) -> None:
        stopped.segment.truncate(stopped.bad.position, stopped.offset)
        damage._set_aside_following(disk, state, index + 1)

    return [
        patch.object(damage, "on_bad_batch", truncate),
        patch.object(damage, "on_missing_end", lambda *a, **n: None),
    ]


@bug
def checksums_not_checked() -> list[Patch]:
    """Skip checksums in recovery and in reads."""

    def trusting(*arguments: Any, **named: Any) -> Any:
        named["check_crc"] = False
        return scan_batches(*arguments, **named)

    def servable(segment: Any, offset: int, position: int, size: int, *, below: int) -> int:
        return size

    return [
        patch("penstock.storage.segment.scan_batches", trusting),
        patch.object(checked_ranges, "servable", servable),
    ]


@bug
def read_failures_ignored() -> list[Patch]:
    """Do not report to a log that its data could not be read while it was sent."""
    return [patch.object(LogReader, "read_failed", lambda self, piece, error: None)]


@bug
def stale_epochs_trusted() -> list[Patch]:
    """Trust the leader epoch checkpoint without checking it."""
    return [
        patch.object(epoch_recovery, "_epoch_is_true", lambda *arguments: True),
        patch.object(epoch_recovery, "_none_is_missing", lambda *arguments: True),
    ]


@bug
def missing_folder_is_new() -> list[Patch]:
    """Create an empty log for a partition whose directory is missing, even if it had records."""
    return [patch.object(HeldPartitions, "__getitem__", lambda self, key: Holding.UNKNOWN)]


@bug
def truncate_below_own_mark() -> list[Patch]:
    """As above on a leader; and let followers truncate committed records when it says so."""
    return [*missing_folder_is_new(), patch.object(follower, "loses_committed", lambda step, log, mark: False)]


@bug
def missing_segment_skipped() -> list[Patch]:
    """Do not check for missing segments at startup; readers skip the gaps."""

    class Gap(Exception):
        pass

    def refuse_gap(self: Quarantine, segment: Any, offset: int, next_offset: int) -> None:
        raise Gap(next_offset)

    def stepping(original: Any) -> Any:
        def read(self: LogReader, offset: int, **options: Any) -> Any:
            while True:
                try:
                    return original(self, offset, **options)
                except Gap as gap:
                    (offset,) = gap.args

        return read

    return [
        patch.object(recovery, "first_loss", lambda *arguments, **named: None),
        patch.object(Quarantine, "refuse_gap", refuse_gap),
        replaced(LogReader, "read", stepping),
    ]


# -- marks ---------------------------------------------------------------------------------


@bug
def fetch_beyond_high_watermark() -> list[Patch]:
    """Return everything written to consumers."""

    def read(self: Partition, offset: int, *, max_bytes: int, committed_only: bool, at_least_one: bool) -> Any:
        if offset >= self.log.end_offset:
            return None
        return self.log.read(offset, max_bytes=max_bytes, end=self.log.end_offset, at_least_one=at_least_one)

    return [patch.object(Partition, "read", read)]


@bug
def open_transactions_shown() -> list[Patch]:
    """Use the high watermark as the last stable offset."""
    return [patch.object(Marks, "_stable_up_to", lambda self, mark: mark)]


@bug
def aborted_list_left_out() -> list[Patch]:
    """Return an empty list of aborted transactions to consumers."""
    return [
        patch.object(Log, "aborted_transactions", lambda self, start, end: []),
        patch.object(Log, "aborted_in", lambda self, offset, piece: []),
    ]


# -- producers -----------------------------------------------------------------------------


@bug
def no_dedupe() -> list[Patch]:
    """Write duplicate batches again."""
    return [patch.object(ProducerState, "check", lambda self, *arguments, **named: None)]


@bug
def no_dedupe_after_restart() -> list[Patch]:
    """Do not rebuild producer state from the log."""

    def nothing(*arguments: Any, **named: Any) -> None:
        return None

    return [
        patch.object(producer_snapshots, "replay", nothing),
        patch.object(producer_snapshots, "load_producers", nothing),
        patch("penstock.storage.aborted.note_batch", nothing),
        patch.object(ProducerState, "_check_sequence", nothing),
    ]


@bug
def producer_ids_given_twice() -> list[Patch]:
    """Start with the first producer id again after a restart."""

    async def take(self: ProducerIds) -> Any:
        self._next += 1
        return self._next - 1

    return [patch.object(ProducerIds, "take", take)]


@bug
def old_epochs_may_write() -> list[Patch]:
    """Accept batches and transactions of a fenced producer."""

    def check(original: Any) -> Any:
        def lenient(self: ProducerState, producer_id: int, epoch: int, *arguments: Any, **named: Any) -> Any:
            known = self.producers.get(producer_id)
            if known is not None and epoch < known.epoch:
                return None
            return original(self, producer_id, epoch, *arguments, **named)

        return lenient

    return [replaced(ProducerState, "check", check), patch.object(partitions, "ProducerFenced", _NoError)]


class _NoError:
    code = NO_ERROR


# -- coordinators --------------------------------------------------------------------------


@bug
def replies_before_commit() -> list[Patch]:
    """Respond from coordinators before their records are durable."""

    def park(self: Any, replies: Any, actions: Any, shared: Any = None) -> None:
        from penstock.coordinator.shared import answer

        self._release(replies, actions)
        answer(shared or [])

    return [patch.object(ShardRunner, "_park", park)]


@bug
def stale_generations_commit() -> list[Patch]:
    """Accept offset commits of any former member."""
    return [patch.object(ClassicGroup, "commit_check", lambda self, **named: None)]


@bug
def end_of_any_transaction() -> list[Patch]:
    """Let EndTxn end the open transaction regardless of its epoch."""
    return [patch.object(ending, "_mistaken", lambda found, command: 0)]


@bug
def takeover_without_a_new_epoch() -> list[Patch]:
    """Let InitProducerId return the epoch of the previous producer."""

    def keep_epoch(original: Any) -> Any:
        return lambda found, **changes: original(found, **{**changes, "epoch": found.epoch})

    return [replaced(taking_over, "replace", keep_epoch)]


@bug
def lost_shard_when_replicas_are() -> list[Patch]:
    """Unload a coordinator's shard when one of its records waits for too few replicas."""

    def settled(original: Any) -> Any:
        def unforgiving(self: Any, end: int, code: int) -> None:
            if code == NotEnoughReplicasAfterAppend.code:
                self._fail(code)
            else:
                original(self, end, code)

        return unforgiving

    return [replaced(ShardRunner, "_settled", settled)]


@bug
def completion_left_to_the_next_load() -> list[Patch]:
    """Do not complete a transaction whose end failed because of a full disk."""

    async def once(self: Any, index: int, markers: Any) -> None:
        with suppress(Refusal):
            await self._complete(index, MarkersWritten(markers))

    return [patch.object(MarkerDriver, "_finish", once)]


@bug
def loads_before_the_first_image() -> list[Patch]:
    """Load a coordinator's partition that is opened before its first image: all committed offsets look orphaned."""

    def log_opened(original: Any) -> Any:
        def hasty(self: CoordinatorRuntime[Any], topic: Any, index: int) -> None:
            with patch.object(self, "partition_count", self.partition_count or 1):
                original(self, topic, index)

        return hasty

    return [replaced(CoordinatorRuntime, "_log_opened", log_opened)]


@bug
def coordinates_without_a_lease() -> list[Patch]:
    """Let a broker that no controller answers go on as the coordinator of its partitions."""
    return [patch.object(Lifecycle, "has_lease", lambda self: True)]


# -- metadata ------------------------------------------------------------------------------


@bug
def snapshot_without_a_partition() -> list[Patch]:
    """Leave out the last partition of each topic in metadata snapshots."""

    def records(original: Any) -> Any:
        def incomplete(image: Any) -> Iterator[Any]:
            for record in original(image):
                if not (isinstance(record, PartitionRecord) and record.partition_id == 0):
                    yield record

        return incomplete

    return [replaced(metadata_snapshot, "records_of", records)]
