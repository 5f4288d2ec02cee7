"""The start offset of each leader epoch (`leader-epoch-checkpoint`).

Entries rise in both columns. Followers and consumers use `end_of` to find where their log diverges from this one
(KIP-101, KIP-279, KIP-320).
"""

from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import partial

from penstock.model.errors import Corruption
from penstock.model.ids import NO_EPOCH, NO_OFFSET
from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import encode_entries, read_entries, write_entries

FILE_NAME = "leader-epoch-checkpoint"
UNSYNCED_SIZE_MAX = 1024 * 1024
"""The file of a log up to this size is not synced: if it is lost, reading the headers of the log takes no time."""
_UNFINISHED = ".tmp"
_ZERO = (0,)
"""The epochs and the offsets of most logs: the first epoch begins at the start. Two tuples of each take 96 bytes."""


class EpochCache:
    """The epochs of one log, oldest first."""

    __slots__ = ("_changes", "_epochs", "_folder", "_is_saving", "_offsets", "dirty", "disk", "latest")

    def __init__(self, disk: Disk, folder: str) -> None:
        self.disk = disk
        self._folder = folder
        # Tuples, because most logs have one epoch or none, and lists take more memory.
        self._epochs: tuple[int, ...] = ()
        self._offsets: tuple[int, ...] = ()
        self._changes = 0
        self._is_saving = False
        self.dirty = False
        self.latest: int = NO_EPOCH
        """The epoch of the newest batch, -1 if there is none."""

    @property
    def _path(self) -> str:
        return f"{self._folder}/{FILE_NAME}"

    def _changed(self) -> None:
        self.dirty = True
        self._changes += 1
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._offsets, strict=True))

    def load(self) -> None:
        """Read the file; raise Corruption if it is not a list of rising epochs."""
        epochs: list[int] = []
        offsets: list[int] = []
        for words in read_entries(self.disk, self._path, columns=2):
            try:
                epoch, offset = int(words[0]), int(words[1])
            except ValueError:
                raise Corruption(f"{self._path}: {words[0]!r} is not an epoch") from None
            if epoch < 0 or offset < 0 or (epochs and (epoch <= epochs[-1] or offset <= offsets[-1])):
                raise Corruption(f"{self._path}: epochs do not rise")
            epochs.append(epoch)
            offsets.append(offset)
        is_first = epochs == offsets == [0]
        self._epochs, self._offsets = (_ZERO, _ZERO) if is_first else (tuple(epochs), tuple(offsets))
        self._changed()
        self.dirty = False

    def assign(self, epoch: int, offset: int) -> None:
        """Record that an epoch begins at the offset, unless it has begun already."""
        if epoch < 0 or (self._epochs and epoch <= self._epochs[-1]):
            return
        # Drop epochs without batches.
        kept = bisect_left(self._offsets, offset)
        self._epochs = (*self._epochs[:kept], epoch)
        self._offsets = (*self._offsets[:kept], offset)
        if self._epochs == _ZERO == self._offsets:
            self._epochs = self._offsets = _ZERO
        self._changed()

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above the given one and its end offset; (-1, -1) if unknown."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, end_offset
        following = bisect_right(self._epochs, epoch)
        # An epoch older than all entries ended where the first one begins.
        found = epoch if following == 0 else self._epochs[following - 1]
        return found, self._offsets[following]

    def epoch_at(self, offset: int) -> int:
        """Return the epoch in which the offset was written, -1 if it is before all of them."""
        slot = bisect_right(self._offsets, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_EPOCH

    def truncate_end(self, offset: int) -> None:
        """Remove epochs that begin at or after the offset."""
        kept = bisect_left(self._offsets, offset)
        if kept < len(self._offsets):
            self._epochs, self._offsets = self._epochs[:kept], self._offsets[:kept]
            self._changed()

    def truncate_start(self, offset: int) -> None:
        """Remove epochs that ended before the offset; the one that contains it now begins there."""
        slot = bisect_right(self._offsets, offset) - 1
        if slot > 0 or (slot == 0 and self._offsets[0] < offset):
            self._epochs, self._offsets = self._epochs[slot:], (offset, *self._offsets[slot + 1 :])
            self._changed()

    def clear(self) -> None:
        if self._epochs:
            self._epochs = self._offsets = ()
            self._changed()

    def replace_file(self) -> None:
        """Write the file with the next `save`, because its current content cannot be used."""
        self.dirty = True

    def save(self) -> None:
        """Durably write the file if anything changed. Blocks."""
        if self.dirty:
            self._changes += 1  # a write in progress is older
            write_entries(self.disk, self._path, self.entries())
            self.dirty = False

    # After a power failure a file that was not synced has its old content, is not complete, or is missing. Recovery
    # compares it with the log in each case.
    def write(self, *, is_durable: bool) -> None:
        """Write the file without a sync if anything changed; it stays to be saved unless it counts as durable."""
        if self.dirty:
            self._changes += 1
            self._write_unfinished().close()
            self.disk.rename(self._path + _UNFINISHED, self._path)
            self.dirty = not is_durable

    def save_later(self) -> None:
        """Durably write the file off the event loop if anything changed. Errors leave it to be saved."""
        if self.dirty and not self._is_saving:
            with suppress(OSError):
                file = self._write_unfinished()
                self._is_saving = True
                self.disk.sync_later(file, partial(self._synced, file, self._changes))

    def _synced(self, file: File, changes: int, error: OSError | None) -> None:
        self._is_saving = False
        file.close()
        if error is None and changes == self._changes:
            # The folder may have been renamed, because the log was deleted.
            with suppress(OSError):
                self.disk.rename(file.path, self._path)
                self.dirty = False

    def _write_unfinished(self) -> File:
        file = self.disk.open(self._path + _UNFINISHED, create=True)
        file.truncate(0)
        file.write((encode_entries(self.entries()),), 0)
        return file
