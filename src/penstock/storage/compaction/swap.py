"""Replacement of segments by their compacted version, safe against a crash at any call.

docs/internals/compaction.md has the order of calls, and what startup does with leftovers. The two syncs of the folder
run off the event loop; meanwhile the log can be read, appended to and rolled. Truncation finishes the swap first
(`Swap.finish_now`). After a disk error the log is unchanged, or the folder is offline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.ports.disk import Disk, File
from penstock.storage import aborted
from penstock.storage.compaction.cleaned_segment import CLEANED_SUFFIX, SWAP_SUFFIX
from penstock.storage.compaction.task import CleanedGroup
from penstock.storage.scan import BadBatch, scan_batches
from penstock.storage.segment import Segment, file_name
from penstock.storage.segment_list import REWRITTEN, SegmentList
from penstock.storage.trim import DELETED_SUFFIX

if TYPE_CHECKING:
    from penstock.storage.log import Log

_LOG_SWAP = ".log" + SWAP_SUFFIX
_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


Steps = Generator[File | None, None, Segment]
"""The steps of a swap. Each yield waits for a sync of the yielded file, or of the folder."""


class Swap:
    """One swap in progress. `done` gets the new segment or the error, unless the swap is forgotten."""

    def __init__(
        self,
        log: Log,
        old: Sequence[Segment],
        group: CleanedGroup,
        now_ms: int,
        done: Callable[[Segment | OSError], None],
    ) -> None:
        self._log = log
        self._done = done
        self._steps: Steps | None = _swap(log, old, group, now_ms)
        # The file whose sync is awaited; None for the folder.
        self._awaited: File | None = None

    def begin(self) -> None:
        self._log.compaction.begin_swap(self)
        self._resume(None)

    def finish_now(self) -> None:
        """Run the remaining steps before returning, before the log is truncated. Blocks."""
        while self._steps is not None:
            try:
                if self._awaited is None:
                    self._log.directory.disk.sync_folder(self._log.folder)
                else:
                    self._awaited.sync()
            except OSError as error:
                self._step(error)
            else:
                self._step(None)

    def forget(self) -> None:
        """Abandon the swap; the next start finishes it."""
        self._steps = None

    def _resume(self, error: OSError | None) -> None:
        log = self._log
        if self._steps is None:
            return
        if log.is_abandoned or log.directory.failure is not None:
            # The folder of a deleted log has been renamed; after a disk failure the next start finishes the swap.
            self._end(log.directory.failure or OSError(f"{log.folder} is deleted"))
            return
        self._step(error)
        self._wait()

    def _wait(self) -> None:
        if self._steps is None:
            return
        disk = self._log.directory.disk
        if self._awaited is None:
            disk.sync_folder_later(self._log.folder, self._resume)
        else:
            disk.sync_later(self._awaited, self._resume)

    def _step(self, error: OSError | None) -> None:
        """Run the next step after the awaited sync, or handle its error."""
        assert self._steps is not None, "called only while the swap is in progress"
        try:
            if error is None:
                self._awaited = next(self._steps)
            else:
                self._log.directory.fail(error)
                self._steps.throw(error)
        except StopIteration as end:
            self._end(end.value)
        except OSError as refusal:
            self._end(refusal)

    def _end(self, outcome: Segment | OSError) -> None:
        self._steps = None
        self._log.compaction.end_swap()
        self._done(outcome)


def _swap(log: Log, old: Sequence[Segment], group: CleanedGroup, now_ms: int) -> Steps:
    new = Segment(
        log.directory,
        log.folder,
        group.base_offset,
        size=group.size,
        index_interval=log.settings.index_interval_bytes,
        index_size_max=log.settings.segment_index_bytes,
        created_ms=old[0].created_ms,
    )
    new.txn_index.expected = group.txn_entries
    end_offset = log.segments.end_of(log.segments.slot_of(old[-1].base_offset), log.end_offset)
    _commit(log, new)
    yield None
    retired: list[Segment] = []
    try:
        is_listed = log.segment_list.exists
        yield log.segment_list.add_closed(new.base_offset, end_offset, REWRITTEN)
        if not is_listed:
            yield None
        _retire(old[1:], retired)
        yield None
        _rename_into_place(log.directory.disk, new)
    except OSError as error:
        _undo(log, new, retired, error)
        raise
    log.replace_segments(old, new)
    with suppress(OSError):
        log.segment_list.add_closed(new.base_offset, end_offset, new.size)
    replaced = [path for segment in retired for path in segment.paths()]
    log.deletes.add(replaced, due_ms=now_ms + log.settings.file_delete_delay_ms)
    log.compaction.end_swap()
    aborted.save_checkpoint(log, closing=False)
    return new


def discard(disk: Disk, folder: str, base_offset: int) -> None:
    """Remove the files of a group that is not used."""
    for suffix in (".log", *_INDEX_SUFFIXES):
        with suppress(OSError):
            disk.remove(f"{folder}/{file_name(base_offset, suffix)}{CLEANED_SUFFIX}")


def _commit(log: Log, new: Segment) -> None:
    """Rename the new segment to `.swap`: from here on, the next start would finish the swap."""
    disk = log.directory.disk
    path, *indexes = new.paths()
    try:
        aborted.remove_checkpoint(disk, log.folder)
        for index in indexes:
            with suppress(FileNotFoundError):
                disk.rename(index + CLEANED_SUFFIX, index + SWAP_SUFFIX)
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    except OSError:
        discard(disk, log.folder, new.base_offset)
        with suppress(OSError):
            for index in indexes:
                disk.remove(index + SWAP_SUFFIX)
        raise


def _retire(segments: Sequence[Segment], retired: list[Segment]) -> None:
    """Rename the replaced segments. They are read under their new names until the swap is complete."""
    for segment in segments:
        retired.append(segment)
        segment.rename(lambda path: path + DELETED_SUFFIX)


def _rename_into_place(disk: Disk, new: Segment) -> None:
    """Rename the new segment to its final names, the log file last: until then, startup repeats this step."""
    path, *indexes = new.paths()
    for index in indexes:
        # An error leaves an old index, which is verified on use and rebuilt.
        with suppress(OSError):
            _rename_index_into_place(disk, index)
    disk.rename(path + SWAP_SUFFIX, path)


def _rename_index_into_place(disk: Disk, path: str) -> None:
    if disk.exists(path + SWAP_SUFFIX):
        disk.rename(path + SWAP_SUFFIX, path)
    else:
        disk.remove(path)


def _undo(log: Log, new: Segment, retired: Sequence[Segment], error: OSError) -> None:
    """Undo a swap: restore the old names durably, then remove the `.swap` files. Take the folder offline on error."""
    disk = log.directory.disk
    if log.directory.failure is not None:
        return
    try:
        for segment in retired:
            segment.rename(lambda path: path.removesuffix(DELETED_SUFFIX))
        disk.sync_folder(log.folder)
        for path in new.paths():
            disk.remove(path + SWAP_SUFFIX)
        disk.sync_folder(log.folder)
    except OSError:
        log.directory.fail(error)


# Startup


def finish_swaps(disk: Disk, folder: str, segment_list: SegmentList) -> list[str]:
    """Complete the swaps that a crash interrupted; return messages for the log."""
    names = disk.list(folder)
    notes: list[str] = []
    for name in names:
        if name.endswith(_LOG_SWAP):
            aborted.remove_checkpoint(disk, folder)
            base_offset = int(name.removesuffix(_LOG_SWAP))
            _finish(disk, folder, base_offset, names, segment_list)
            notes.append(f"{folder}: finished the interrupted compaction of segment {base_offset}")
    return notes


def _finish(disk: Disk, folder: str, base_offset: int, names: Sequence[str], segment_list: SegmentList) -> None:
    path = f"{folder}/{file_name(base_offset, '.log')}"
    end = _end_of(disk, path + SWAP_SUFFIX, base_offset)
    if segment_list.exists and not segment_list.is_void:
        segment_list.add_closed(base_offset, end, REWRITTEN).sync()
    for name in names:
        stem, _, suffix = name.partition(".")
        if "." + suffix in (".log", *_INDEX_SUFFIXES) and stem.isdecimal() and base_offset < int(stem) < end:
            disk.remove(f"{folder}/{name}")
    disk.sync_folder(folder)
    for suffix in _INDEX_SUFFIXES:
        _rename_index_into_place(disk, f"{folder}/{file_name(base_offset, suffix)}")
    disk.rename(path + SWAP_SUFFIX, path)
    disk.sync_folder(folder)


def _end_of(disk: Disk, path: str, base_offset: int) -> int:
    """Return the end offset of a new segment, which is that of the segments that it replaces."""
    file = disk.open(path, writable=False)
    end = base_offset
    try:
        headers = scan_batches(file, 0, file.size(), offset=base_offset, base_offset=base_offset, check_crc=False)
        for _, header in headers:
            end = header[0] + header[6] + 1
    except BadBatch:
        # The file was complete and synced, so this is corruption, which reads of the log will report.
        pass
    finally:
        file.close()
    return end
