"""Checkpoints of the metadata: decides when one is due, writes it in slices, and deletes what it replaces.

Created by `applier.py`, which reports every published image; `opening.py` calls `load_newest`. Calls `snapshot.py` and
the log.
The newest two checkpoints are kept, and the log from the older of them on, so that corruption of
the newest costs only a longer replay. A checkpoint that cannot be written is
skipped with a warning: the log still has everything.
"""

import logging
from collections.abc import Callable

from penstock.metadata.snapshot import PART_SUFFIX, Snapshot, SnapshotWriter, end_of, load, name_of, parse_name
from penstock.model.errors import Corruption, StartupError, StorageError
from penstock.ports.clock import Clock, Timer
from penstock.ports.disk import Disk
from penstock.raft.messages import EpochEnd
from penstock.storage.log import Log

CORRUPT_SUFFIX = ".corrupt"
REPLAY_SIZE_LEAST = 512 * 1024
"""Records of this size are replayed in a tenth of a second. A start that replays more waits longer for them than for
the checkpoint, if they are larger than it: every restart of a broker with many partitions adds that many."""
SETTLE_S = 2.0
"""How long such a checkpoint waits for the rest of a burst of changes, and for a start to end."""

logger = logging.getLogger(__name__)


def load_newest(disk: Disk, folder: str, *, log_start: int) -> Snapshot | None:
    """Return the newest intact checkpoint, or None if the log begins at offset 0.

    Corrupt ones are set aside under another name. Raises StartupError if the log begins after the end of the
    newest intact one.
    """
    newest: Snapshot | None = None
    for name in reversed(disk.list(folder)):
        if name.endswith(PART_SUFFIX):
            disk.remove(f"{folder}/{name}")
        elif newest is None and parse_name(name) is not None:
            try:
                newest = load(disk, folder, name)
            except Corruption as problem:
                logger.error("set aside a corrupt checkpoint of the metadata: %s", problem)
                disk.rename(f"{folder}/{name}", f"{folder}/{name}{CORRUPT_SUFFIX}")
    reach = 0 if newest is None else newest.image.offset + 1
    if reach < log_start:
        raise StartupError(
            f"The metadata in {folder} is incomplete: its log begins at offset {log_start} and no intact "
            f"checkpoint reaches that far. Restore the folder from a backup or from another voter."
        )
    return newest


class Checkpointer:
    def __init__(
        self,
        *,
        clock: Clock,
        log: Log,
        newest: Snapshot | None,
        bytes_between: int,
        interval_ms: int,
        on_dropped: Callable[[EpochEnd], None],
    ) -> None:
        self._clock = clock
        self._log = log
        self._disk = log.directory.disk
        # Not the image, which would keep the earlier state of every partition in memory.
        self._newest = None if newest is None else end_of(newest.image)
        self._newest_size = 0 if newest is None else newest.size
        self._bytes_between = bytes_between
        self._interval_s = interval_ms / 1000
        self._on_dropped = on_dropped
        self._current: Snapshot | None = None
        self._bytes_since = 0
        self._writer: SnapshotWriter | None = None
        self._timer: Timer | None = None
        self._settling: Timer | None = None
        self._set_timer()

    def note(self, snapshot: Snapshot, *, size: int) -> None:
        """Record a published image and the size of its records."""
        self._current = snapshot
        self._bytes_since += size
        if self._bytes_since >= self._bytes_between:
            self._begin()
        elif self._replay_is_long() and self._settling is None:
            self._settling = self._clock.call_later(SETTLE_S, self._settled)

    def _replay_is_long(self) -> bool:
        return self._bytes_since >= max(REPLAY_SIZE_LEAST, self._newest_size)

    def _settled(self) -> None:
        self._settling = None
        if self._replay_is_long():
            self._begin()

    def stop(self) -> None:
        """Write no more; abandon a checkpoint in progress."""
        self._writer = None
        for timer in (self._timer, self._settling):
            if timer is not None:
                timer.cancel()
        self._timer = self._settling = None

    def _set_timer(self) -> None:
        if self._interval_s > 0:
            self._timer = self._clock.call_later(self._interval_s, self._interval_elapsed)

    def _interval_elapsed(self) -> None:
        self._set_timer()
        if self._bytes_since:
            self._begin()

    def _begin(self) -> None:
        if self._writer is not None or self._current is None or self._log.directory.failure is not None:
            return
        self._bytes_since = 0
        snapshot = self._current
        try:
            # Records after the checkpoint go to a new segment, so that the current one can be deleted later.
            with_reserve = self._log.directory.with_reserve
            with_reserve(self._log.roll)
            self._writer = with_reserve(lambda: SnapshotWriter(self._disk, self._log.folder, snapshot))
        except (OSError, StorageError) as error:
            self._give_up(error)
            return
        self._clock.call_later(0.0, lambda: self._write_next(snapshot))

    def _write_next(self, snapshot: Snapshot) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            more = self._log.directory.with_reserve(writer.write_slice)
        except OSError as error:
            self._give_up(error)
            return
        if more:
            self._clock.call_later(0.0, lambda: self._write_next(snapshot))
        else:
            writer.finish(lambda error: self._finished(end_of(snapshot.image), writer.size, error))

    def _finished(self, end: EpochEnd, size: int, error: OSError | None) -> None:
        if self._writer is None:
            return
        if error is not None:
            self._give_up(error)
            return
        self._writer = None
        before, self._newest = self._newest, end
        self._newest_size = size
        if before is not None:
            self._drop_before(before)

    def _drop_before(self, kept: EpochEnd) -> None:
        """Delete the log up to a checkpoint that is kept, and the checkpoints before it."""
        log = self._log
        try:
            log.advance_start(kept.end_offset)
            log.delete_old_segments(high_watermark=kept.end_offset, now_ms=self._clock.wall_ms())
            log.deletes.remove_due(self._clock.wall_ms())
            for name in self._disk.list(log.folder):
                if parse_name(name) is not None and name < name_of(kept):
                    self._disk.remove(f"{log.folder}/{name}")
        except (OSError, StorageError) as error:
            logger.warning("cannot remove old metadata in %s: %s", log.folder, error)
        self._on_dropped(kept)

    def _give_up(self, error: Exception) -> None:
        self._writer = None
        logger.warning("cannot write a checkpoint of the metadata to %s: %s", self._log.folder, error)
