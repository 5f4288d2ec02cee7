"""Transaction markers: their append on the leader, and their effect on leader and follower.

Calls producer_state.py, which refuses fenced coordinators and producers, and segment_writer.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.appended import Appended
from penstock.storage.marker import Marker, encode_marker
from penstock.wire.batch import patch_offset_and_epoch

if TYPE_CHECKING:
    from penstock.storage.log import Log


def append_marker(
    log: Log,
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    leader_epoch: int,
    now_ms: int,
    transaction_version: int = 0,
) -> Appended:
    """End a producer's transaction with a control batch, which is written even if no transaction is open."""
    if log.quarantine.damage is not None or log.directory.refusal is not None:
        log.quarantine.check_append()
    log.producer_state.check_marker(
        producer_id, producer_epoch, coordinator_epoch, transaction_version=transaction_version
    )
    batch = encode_marker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        now_ms=now_ms,
        broker_time=log.rules.broker_time,
    )
    offset = log.offsets.end
    patch_offset_and_epoch(batch, 0, offset, leader_epoch)
    log.writer.write(memoryview(batch), offset, offset, now_ms, now_ms)
    log.begin_epoch(leader_epoch, offset)
    marker = Marker(commit, coordinator_epoch)
    note_marker(
        log, producer_id, producer_epoch, marker, offset, now_ms, now_ms, transaction_version=transaction_version
    )
    log.flusher.appended(offset + 1)
    return Appended(offset, offset, now_ms if log.rules.broker_time else -1, log.start_offset, False)


def note_marker(
    log: Log,
    producer_id: int,
    producer_epoch: int,
    marker: Marker,
    offset: int,
    timestamp: int,
    now_ms: int,
    *,
    transaction_version: int = 0,
) -> None:
    """Apply a marker that was written to the active segment."""
    ended = log.producer_state.marker_appended(
        producer_id,
        producer_epoch,
        marker.coordinator_epoch,
        offset,
        timestamp,
        now_ms,
        is_final=False,
        transaction_version=transaction_version,
    )
    if ended is not None and not marker.commit:
        log.note_aborted(ended)
