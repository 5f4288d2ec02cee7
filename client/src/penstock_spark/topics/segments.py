"""Direct reading of a broker's segment files: a backfill without load on the broker.

`plan` runs on the driver: it finds the files of each range, splits large ones at entries of their offset index, and
adds the aborted transactions, which it finds by their markers: a broker may write its `.txnindex` files later. Offsets
come from the broker, so nothing uncommitted is read.
Mode `auto` fetches the newest segment of each partition. Raises for the directory of another topic.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

from penstock_client.errors import Corrupt, PenstockClientError
from penstock_client.offsets import Range
from penstock_client.protocol.cluster import READ_COMMITTED
from penstock_client.records.batches import CONTROL, TRANSACTIONAL
from penstock_spark.topics.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock_client.columns import Columns

_INDEX_ENTRY: Final = Struct(">ii")
# Of a batch header: base offset, length, magic, attributes, last offset delta, producer id and number of records.
_BATCH: Final = Struct(">qi4xb4xhi16xq6xi")
_MARKER_TYPE: Final = slice(68, 70)
"""The type in the key of a marker, the only record of its batch; 0 is abort."""
_PIECE_SIZE: Final = 64 * 1024 * 1024
_READ_SIZE: Final = 8 * 1024 * 1024
_HEADER_SIZE: Final = 61
_PREFIX_SIZE: Final = 12
_ABORT: Final = b"\x00\x00"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a file: bytes from `position` to the first batch at or after the range's end."""

    path: str
    position: int
    aborted: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _File:
    """A segment: offsets from `base` (inclusive) to `next_base` (exclusive)."""

    path: Path
    base: int
    next_base: int | None


def plan(
    options: SourceOptions, ranges: list[Range], ids: Mapping[str, str]
) -> tuple[list[tuple[Range, Piece]], list[Range]]:
    """Return the ranges to read from files, and the ranges to fetch."""
    assert options.data_folder is not None, "the options were checked"
    pieces: list[tuple[Range, Piece]] = []
    rest: list[Range] = []
    for wanted in ranges:
        folder = Path(options.data_folder) / f"{wanted.topic}-{wanted.partition}"
        files = _files(folder)
        if not files and options.mode == "segments":
            raise PenstockClientError(
                f"mode 'segments': {folder} does not exist. dataFolder must be the broker's log.dirs, as seen by the "
                "driver and every executor; else use mode 'fetch'."
            )
        _check_id(folder, ids.get(wanted.topic, ""))
        aborted = _aborted(files, options, wanted)
        if options.mode == "auto":
            files = files[:-1]
        covered = wanted.start
        for file in files:
            end = wanted.end if file.next_base is None else min(wanted.end, file.next_base)
            if covered < end and file.base <= covered:
                piece = Range(wanted.topic, wanted.partition, covered, end)
                pieces += _cut(piece, file, aborted)
                covered = end
        if covered < wanted.end:
            rest.append(Range(wanted.topic, wanted.partition, covered, wanted.end))
    return pieces, rest


def _files(folder: Path) -> list[_File]:
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix == ".log" and path.stem.isdigit())
    except OSError:
        return []
    bases = [int(path.stem) for path in names]
    return [_File(path, base, after) for path, base, after in zip(names, bases, [*bases[1:], None], strict=True)]


def _check_id(folder: Path, topic_id: str) -> None:
    try:
        text = (folder / "partition.metadata").read_text()
    except OSError:
        return
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line).get("topic_id", "").strip()
    if found and topic_id and found != topic_id:
        raise PenstockClientError(
            f"{folder} has a topic of the same name with another id ({found}; the cluster has {topic_id}): "
            "dataFolder belongs to another broker, or to a deleted topic"
        )


def _cut(wanted: Range, file: _File, aborted: tuple[tuple[int, int, int], ...]) -> list[tuple[Range, Piece]]:
    """Split a file into pieces of some tens of megabytes, by its offset index."""
    start, marks = 0, []
    next_mark = 0
    for offset, position in _index(file):
        if offset <= wanted.start:
            start, next_mark = position, position + _PIECE_SIZE
        elif offset < wanted.end and position >= next_mark:
            marks.append((offset, position))
            next_mark = position + _PIECE_SIZE
    edges = [(wanted.start, start), *marks]
    ends = [offset for offset, _ in edges[1:]] + [wanted.end]
    return [
        (Range(wanted.topic, wanted.partition, low, high), Piece(str(file.path), position, _within(aborted, low, high)))
        for (low, position), high in zip(edges, ends, strict=True)
    ]


def _index(file: _File) -> Iterator[tuple[int, int]]:
    """Return offsets and positions of some batches; a missing or empty index only makes the piece larger."""
    try:
        data = file.path.with_suffix(".index").read_bytes()
    except OSError:
        return
    last = -1
    for relative, position in _INDEX_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
        if position <= last or (relative == 0 and last >= 0):
            return  # the end of an active index is not written yet
        last = position
        yield file.base + relative, position


def _aborted(files: list[_File], options: SourceOptions, wanted: Range) -> tuple[tuple[int, int, int], ...]:
    """Return (producer id, first offset, offset of the marker) of aborted transactions with rows in the range.

    A transaction may end long after the range, so all headers up to the end of the log are read.
    """
    if options.isolation != READ_COMMITTED:
        return ()
    found = []
    begun: dict[int, int] = {}
    for file in files:
        if file.next_base is not None and file.next_base <= wanted.start:
            continue
        for base, last, producer, marker in _transactional(file):
            if marker is None:
                begun.setdefault(producer, base)
                continue
            first = begun.pop(producer, None)
            if marker == _ABORT and first is not None and first < wanted.end and last >= wanted.start:
                found.append((producer, first, last))
    return tuple(found)


def _transactional(file: _File) -> Iterator[tuple[int, int, int, bytes | None]]:
    """Yield first and last offset, producer id and type of marker of transactional batches; None if it has rows."""
    try:
        with open(file.path, "rb", buffering=0) as stream:
            position = 0
            while len(head := os.pread(stream.fileno(), _MARKER_TYPE.stop, position)) >= _HEADER_SIZE:
                base, length, magic, attributes, delta, producer, count = _BATCH.unpack_from(head)
                if magic != 2 or length <= 0:
                    return
                if attributes & CONTROL:
                    # Compaction leaves a marker without its record when no row of its transaction is left.
                    yield base, base + delta, producer, head[_MARKER_TYPE] if count else b""
                elif attributes & TRANSACTIONAL:
                    yield base, base + delta, producer, None
                position += _PREFIX_SIZE + length
    except OSError:
        return


def _within(aborted: tuple[tuple[int, int, int], ...], low: int, high: int) -> tuple[tuple[int, int], ...]:
    return tuple((producer, first) for producer, first, last in aborted if first < high and last >= low)


def segment_rows(options: SourceOptions, wanted: Range, piece: Piece, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Yield every visible row of the piece, in order."""
    from penstock_client.protocol.connection import PAD
    from penstock_client.records.batches import Visible, scan
    from penstock_client.scan import rows_of

    visible = Visible(piece.aborted, committed_only=options.isolation == READ_COMMITTED)
    position, size = piece.position, _READ_SIZE
    # Rows are copied out before the next read, so one buffer is enough; new memory costs as much as the read.
    data = bytearray(size + PAD)
    with open(piece.path, "rb", buffering=0) as file:
        while True:
            if len(data) < size + PAD:
                data = bytearray(size + PAD)
            view = memoryview(data)
            count = os.preadv(file.fileno(), [view[:size]], position)
            consumed, found, done = 0, [], False
            for batch in scan(view, 0, count):
                if batch.base_offset >= wanted.end:
                    done = True
                    break
                consumed = batch.end
                if batch.last_offset >= wanted.start and visible(batch, view) and batch.record_count:
                    found.append(batch)
            yield from rows_of(data, found, wanted, columns, options.rows_per_batch)
            if done or count < size:
                return
            if not consumed:
                size = _size_of_first(view, size)
            position += consumed


def _size_of_first(view: memoryview, size: int) -> int:
    """Return the size of a batch that is larger than one read."""
    needed = int.from_bytes(view[8:12], "big", signed=True) + 12
    if needed <= size:
        raise Corrupt("a segment file has an invalid batch")
    return needed + _HEADER_SIZE
