"""Recovery of a log's leader epochs: from their file if it matches the log, otherwise from the batch headers."""

from bisect import bisect_right
from collections.abc import Sequence

from penstock.model.errors import Corruption
from penstock.storage.directory import UNREADABLE
from penstock.storage.epoch_cache import EpochCache
from penstock.storage.segment import Segment
from penstock.wire.batch import HeaderTuple


def load_epochs(epochs: EpochCache, segments: Sequence[Segment], end: int, *, log_start: int) -> None:
    """Load the epochs below an offset; use the headers if the file is missing or does not match the log.

    Raises BadBatch, OSError.
    """
    try:
        epochs.load()
        epochs.truncate_end(end)
        if all(
            _epoch_is_true(segments, epoch, offset, log_start) for epoch, offset in epochs.entries()
        ) and _none_is_missing(segments, epochs.latest, end):
            return
    except FileNotFoundError:
        pass
    except Corruption:
        epochs.replace_file()
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        epochs.replace_file()
    epochs.clear()
    for segment in segments:
        if segment.base_offset >= end:
            break
        for _, header in segment.headers_from(0):
            epochs.assign(header[2], header[0])
    epochs.truncate_end(end)


def _epoch_is_true(segments: Sequence[Segment], epoch: int, offset: int, log_start: int) -> bool:
    """Return whether a batch of the epoch is at the offset, after one of an older epoch."""
    header = _header_at(segments, offset)
    if header is None or header[2] != epoch:
        return False
    if offset <= max(log_start, segments[0].base_offset):
        return True
    before = _header_at(segments, offset - 1)
    return header[0] == offset and (before is None or before[0] >= offset or before[2] < epoch)


def _none_is_missing(segments: Sequence[Segment], latest: int, end: int) -> bool:
    """Return whether the last batch before an offset has the latest epoch; a corrupt entry may lie beyond the end."""
    if end <= segments[0].base_offset:
        return True
    last = _header_at(segments, end - 1)
    return latest >= 0 and (last is None or last[0] >= end or last[2] == latest)


def _header_at(segments: Sequence[Segment], offset: int) -> HeaderTuple | None:
    """Return the header of the batch that contains an offset, or of the next one in its segment."""
    slot = max(bisect_right([each.base_offset for each in segments], offset) - 1, 0)
    position = segments[slot].find(offset)
    return None if position is None else segments[slot].header_at(position)
