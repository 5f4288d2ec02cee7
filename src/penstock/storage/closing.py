"""Clean closes of logs: one log with syncs of its own, or many with syncs of the volume.

Afterwards everything is durable and the next open needs no scan. Called by log.py and store.py. Raises StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.storage import aborted

if TYPE_CHECKING:
    from penstock.storage.log import Log


def close_one(log: Log) -> None:
    """Close one log."""
    log.writer.mend_tail()
    log.flush()
    _close_active(log)
    log.quarantine.guard(log.flusher.sync_indexes_now)
    if not log.segments.is_small:
        with suppress(OSError):
            log.epochs.save()
        _write_derived(log)


def close_many(logs: Sequence[Log], sync_volume: Callable[[], object]) -> None:
    """Close many logs on one volume. Once this returns, one more sync of the volume makes everything durable."""
    for log in logs:
        log.writer.mend_tail()
        _close_active(log)
        log.quarantine.guard(log.flusher.write_indexes)
        if not log.segments.is_small:
            with suppress(OSError):
                log.epochs.write(is_durable=True)
            _write_derived(log)
    sync_volume()
    for log in logs:
        log.quarantine.guard(log.flusher.volume_synced)


def _close_active(log: Log) -> None:
    closed = log.writer.close()
    if closed is not None and not closed.is_small:
        log.flusher.add_closed_indexes(closed)


def _write_derived(log: Log) -> None:
    log.save_snapshot()
    aborted.save_checkpoint(log, closing=True)
