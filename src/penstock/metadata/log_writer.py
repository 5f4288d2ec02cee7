"""Writes to the metadata log and the quorum state: the effects of the core that change the disk.

A full disk must not stop a voter, so all writes may use reserved space. Called by quorum.py. Calls storage/log.py and
quorum_state.py, and keeps the registry of voters in step with the log. Raises OSError, Refusal.
"""

from collections.abc import Sequence

from penstock.metadata import control, quorum_state
from penstock.metadata.opening import Opened
from penstock.metadata.snapshot import name_of
from penstock.metadata.voters import VoterSet
from penstock.model.ids import Offset
from penstock.ports.clock import Clock
from penstock.raft.events import ElectionState
from penstock.raft.messages import Batch, EpochEnd, LeaderChange
from penstock.wire.records import decode_batch, encode_batch, seal_plain_batch


class MetadataLogWriter:
    """Writes the metadata of one node."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._log = opened.log
        self._core = opened.core
        self._registry = opened.voter_registry
        self._clock = clock
        self._disk = opened.log.directory.disk
        self._with_reserve = opened.log.directory.with_reserve

    def persist(self, election: ElectionState) -> None:
        """Write epoch and vote durably."""
        directories = self._registry.directories
        self._with_reserve(lambda: quorum_state.write(self._disk, self._log.folder, election, directories=directories))

    def truncate_to(self, offset: Offset) -> None:
        self._log.truncate_to(offset)
        self._registry.truncate_to(offset)

    def append_batches(self, batches: tuple[Batch, ...]) -> None:
        """Append control batches that this node creates, or batches that were fetched from the leader."""
        own = [batch for batch in batches if not isinstance(batch.payload, bytes)]
        for batch in own:
            timestamp = self._clock.wall_ms()
            if isinstance(batch.payload, LeaderChange):
                records = [control.leader_change(batch.payload, timestamp=timestamp)]
            else:
                records = [control.voters(batch.payload, timestamp=timestamp)]
                if batch.last_offset > batch.base_offset:
                    records.insert(0, control.kraft_version(1, timestamp=timestamp))
                self._registry.append(batch.last_offset, batch.payload)
            self._append(bytearray(encode_batch(records, is_control=True)), timestamp)
        if not own:
            joined = memoryview(bytearray().join(batch.payload for batch in batches))
            self._with_reserve(lambda: self._log.append_replicated(joined, now_ms=self._clock.wall_ms()))
            for batch in batches:
                if batch.voters is not None:
                    voters = control.voters_in(decode_batch(batch.payload))
                    assert voters is not None, "the batch must contain voters"
                    self._registry.append(batch.last_offset, voters)

    def append_records(self, records: Sequence[bytes], *, timestamp: int) -> int:
        """Append one batch of records, encoded by `plain_record`, in the current epoch; return its size."""
        return self._append(seal_plain_batch(records, timestamp=timestamp), timestamp)

    def _append(self, batch: bytearray, timestamp: int) -> int:
        epoch = self._core.epoch
        self._with_reserve(
            lambda: self._log.append(memoryview(batch), leader_epoch=epoch, now_ms=timestamp, trusted=True)
        )
        return len(batch)

    def replace(self, end: EpochEnd, voters: VoterSet | None, content: bytes) -> None:
        """Replace the log by a snapshot that ends at an offset."""
        self._with_reserve(lambda: self._disk.replace_file(f"{self._log.folder}/{name_of(end)}", content))
        self._log.truncate_fully_and_start_at(end.end_offset)
        self._registry.replaced(voters)
