"""The files of a log: their content and their damage. Reads through the disk port and changes nothing.

Uses storage/scan.py and the index modules, so that it accepts and rejects the same bytes as the broker. `dump_*`
yield rows; `verify` yields findings, none if the log is intact. Beside a running broker, the end of the newest segment
may be incomplete, which `verify` reports as a torn end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.actions.errors import ActionError
from penstock.config.option import HIDDEN
from penstock.config.settings import option_of
from penstock.metadata.records import ConfigRecord, UserScramCredentialRecord, decode
from penstock.model.errors import Corruption, Refusal
from penstock.model.topic import CLUSTER_METADATA
from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import LOG_STARTS, read_offsets
from penstock.storage.offset_index import OffsetIndex
from penstock.storage.partition_folder import parse_folder
from penstock.storage.scan import BadBatch, find_valid_batch, scan_batches
from penstock.storage.segment_list import SegmentList
from penstock.storage.time_index import TimeIndex
from penstock.wire.batch import BatchHeader
from penstock.wire.compression import NAMES
from penstock.wire.records import decode_batch

CODEC_NAMES: Final = {number: name for name, number in NAMES.items()}


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of one segment."""

    partition: str
    folder: str
    base_offset: int

    def path(self, ending: str) -> str:
        return f"{self.folder}/{self.base_offset:020d}.{ending}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a file. `damage` is False if the next start of the broker repairs it."""

    file: str
    position: int | None
    problem: str
    next_step: str
    damage: bool = True


def open_segments(disk: Disk, folder: str) -> list[SegmentFiles]:
    """Return the segments of a folder; raise ActionError if there are none."""
    try:
        segments = find_segments(disk, folder)
    except NotADirectoryError:
        raise ActionError(f"{folder} is a file. Use a data folder or a partition folder in it.") from None
    except FileNotFoundError:
        raise ActionError(f"{folder} does not exist. Use the data folder of a broker.") from None
    if not segments:
        raise ActionError(f"{folder} has no log segments. Use a data folder or a partition folder in it.")
    return segments


def find_segments(disk: Disk, folder: str) -> list[SegmentFiles]:
    """Return the segments of a partition folder, or of every partition in a data folder."""
    folder = folder.rstrip("/") or "/"
    found = _segments_of(disk, folder)
    if found:
        return found
    return [
        segment
        for name in disk.list(folder)
        if disk.is_folder(f"{folder}/{name}") and not name.endswith("-delete")
        for segment in _segments_of(disk, f"{folder}/{name}")
    ]


def _segments_of(disk: Disk, folder: str) -> list[SegmentFiles]:
    partition = folder.rsplit("/", 1)[-1]
    return [
        SegmentFiles(partition, folder, int(name[:20]))
        for name in disk.list(folder)
        if len(name) == 24 and name.endswith(".log") and name[:20].isdigit()
    ]


def dump_segments(disk: Disk, segments: list[SegmentFiles]) -> Iterator[dict[str, Any]]:
    """Yield a row per segment: its size, offsets and timestamps."""
    for segment in segments:
        batches, state = _headers(disk, segment)
        yield {
            "partition": segment.partition,
            "segment": segment.base_offset,
            "size": _size(disk, segment.path("log")),
            "batches": len(batches),
            "records": sum(header.record_count for _, header in batches),
            "first_offset": batches[0][1].base_offset if batches else None,
            "last_offset": batches[-1][1].last_offset if batches else None,
            "max_timestamp": max((header.max_timestamp for _, header in batches), default=None),
            "state": state,
        }


def dump_batches(disk: Disk, segments: list[SegmentFiles]) -> Iterator[dict[str, Any]]:
    """Yield a row per batch, from its header."""
    for segment in segments:
        batches, state = _headers(disk, segment)
        for position, header in batches:
            yield {
                "partition": segment.partition,
                "segment": segment.base_offset,
                "position": position,
                "size": header.size,
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "records": header.record_count,
                "leader_epoch": header.leader_epoch,
                "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
                "max_timestamp": header.max_timestamp,
                "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "transactional": header.is_transactional,
                "control": header.is_control,
            }
        if state != "ok":
            yield {"partition": segment.partition, "segment": segment.base_offset, "codec": state}


def dump_records(disk: Disk, segments: list[SegmentFiles]) -> Iterator[dict[str, Any]]:
    """Yield a row per record. Decompresses batches."""
    for segment in segments:
        file = disk.open(segment.path("log"), writable=False)
        try:
            for position, header in _headers(disk, segment)[0]:
                yield from _records_of(file, segment, position, header)
        finally:
            file.close()


def _records_of(file: File, segment: SegmentFiles, position: int, header: BatchHeader) -> Iterator[dict[str, Any]]:
    where = {"partition": segment.partition, "segment": segment.base_offset}
    try:
        records = decode_batch(memoryview(file.read(header.size, position)))
    except Refusal as problem:
        yield {**where, "offset": header.base_offset, "value": f"({problem})"}
        return
    for record in records:
        yield {
            **where,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": HIDDEN if _is_secret(segment, record.value) else _text(record.value),
            "headers": [f"{_text(name)}={_text(value)}" for name, value in record.headers],
        }


def _is_secret(segment: SegmentFiles, value: bytes | None) -> bool:
    """Return whether a record of the metadata log contains a password or a credential."""
    if not segment.partition.startswith(CLUSTER_METADATA) or value is None:
        return False
    try:
        record = decode(value)
    except Corruption:
        return False
    if isinstance(record, ConfigRecord):
        option = option_of(record.name)
        return option is not None and option.sensitive
    return isinstance(record, UserScramCredentialRecord)


def dump_indexes(disk: Disk, segments: list[SegmentFiles]) -> Iterator[dict[str, Any]]:
    """Yield a row per entry of the offset and the time index."""
    for segment in segments:
        where = {"partition": segment.partition, "segment": segment.base_offset}
        if disk.exists(segment.path("index")):
            offsets = OffsetIndex(segment.path("log"), segment.base_offset)
            offsets.load(disk, log_size=_size(disk, segment.path("log")))
            for slot in range(len(offsets)):
                offset, position = offsets.entry(slot)
                yield {**where, "index": "offset", "offset": offset, "position": position}
        if disk.exists(segment.path("timeindex")):
            times = TimeIndex(segment.path("log"), segment.base_offset)
            times.load(disk)
            for timestamp, relative in zip(times.timestamps, times.offsets, strict=True):
                offset = segment.base_offset + relative
                yield {**where, "index": "time", "offset": offset, "timestamp": timestamp}


def verify(disk: Disk, segments: list[SegmentFiles]) -> Iterator[Finding]:
    """Check every checksum, compare index entries with the log, and check that segments are contiguous."""
    for number, segment in enumerate(segments):
        follower = segments[number + 1] if number + 1 < len(segments) else None
        next_base = follower.base_offset if follower and follower.folder == segment.folder else None
        if number == 0 or segments[number - 1].folder != segment.folder:
            yield from _verify_list(disk, segment)
        batches: dict[int, BatchHeader] = {}
        yield from _verify_log(disk, segment, next_base, batches)
        yield from _verify_offset_index(disk, segment, batches)
        yield from _verify_time_index(disk, segment, batches)


def _log_start(disk: Disk, segment: SegmentFiles) -> int:
    path, partition = f"{segment.folder.rpartition('/')[0]}/{LOG_STARTS}", parse_folder(segment.partition)
    return read_offsets(disk, path).get(partition, 0) if partition is not None and disk.exists(path) else 0


def _verify_list(disk: Disk, first: SegmentFiles) -> Iterator[Finding]:
    """Find listed segments above the log start that are missing."""
    listed = SegmentList(disk, first.folder)
    if not disk.exists(listed.path):
        return
    listed.load()
    log_start = _log_start(disk, first)
    found = {each.base_offset for each in _segments_of(disk, first.folder)}
    next_step = "Restore the file, or copy the records from a replica."
    if listed.is_void:
        yield Finding(listed.path, None, "is damaged", "The next start rebuilds it from the segments.", damage=False)
    if listed.begins_at is not None and first.base_offset > max(listed.begins_at, log_start):
        yield Finding(listed.path, None, f"the log starts at {listed.begins_at}, but no segment does", next_step)
    for entry in listed:
        if entry.base_offset not in found and entry.end_offset > log_start:
            problem = f"segment {entry.base_offset} is missing, with offsets up to {entry.end_offset - 1}"
            yield Finding(listed.path, None, problem, next_step)
    end = listed.end_offset
    if end is not None and end not in found and end >= log_start:
        yield Finding(listed.path, None, f"segment {end} is missing", next_step)


def _verify_log(
    disk: Disk, segment: SegmentFiles, next_base: int | None, batches: dict[int, BatchHeader]
) -> Iterator[Finding]:
    path = segment.path("log")
    file = disk.open(path, writable=False)
    try:
        size = file.size()
        try:
            base = segment.base_offset
            for position, fields in scan_batches(file, 0, size, offset=base, base_offset=base, check_crc=True):
                batches[position] = BatchHeader(fields)
        except BadBatch as bad:
            yield _classify(file, path, bad, segment, size=size, closed=next_base is not None)
        else:
            last = max((header.last_offset for header in batches.values()), default=segment.base_offset - 1)
            if next_base is not None and last + 1 != next_base:
                missing = f": offsets {last + 1} to {next_base - 1} are missing" if last < next_base else ""
                problem = f"ends at offset {last}, but the next segment starts at {next_base}{missing}"
                yield Finding(path, None, problem, "Back up the folder, then copy the records from a replica.")
    finally:
        file.close()


def _classify(file: File, path: str, bad: BadBatch, segment: SegmentFiles, *, size: int, closed: bool) -> Finding:
    """Tell a torn end, which a crash leaves and the next start truncates, from damage in the middle."""
    base = segment.base_offset
    next_valid = find_valid_batch(file, bad.position + 1, size, offset=base, base_offset=base)
    if next_valid is None and not closed:
        left = f"{bad.why}; nothing valid follows in the last {size - bad.position} bytes"
        return Finding(
            path, bad.position, left, "A crash leaves a torn end. The next start truncates it.", damage=False
        )
    where = f"a valid batch follows at {next_valid}" if next_valid is not None else "more segments follow"
    return Finding(path, bad.position, f"{bad.why}; {where}", "Back up the file, then copy the records from a replica.")


def _verify_offset_index(disk: Disk, segment: SegmentFiles, batches: dict[int, BatchHeader]) -> Iterator[Finding]:
    path = segment.path("index")
    if not disk.exists(path):
        yield _rebuilt_at_start(path, None, "is missing")
        return
    index = OffsetIndex(segment.path("log"), segment.base_offset)
    try:
        index.load(disk, log_size=_size(disk, segment.path("log")))
    except Corruption as problem:
        yield _rebuilt_at_start(path, None, str(problem).removeprefix(f"{path}: "))
        return
    for slot in range(len(index)):
        offset, position = index.entry(slot)
        header = batches.get(position)
        if header is None or header.last_offset != offset:
            yield _rebuilt_at_start(
                path, slot * index.entry_size, f"offset {offset} is not at position {position} of the log"
            )
            return


def _verify_time_index(disk: Disk, segment: SegmentFiles, batches: dict[int, BatchHeader]) -> Iterator[Finding]:
    path = segment.path("timeindex")
    if not disk.exists(path):
        yield _rebuilt_at_start(path, None, "is missing")
        return
    index = TimeIndex(segment.path("log"), segment.base_offset)
    try:
        index.load(disk)
    except Corruption as problem:
        yield _rebuilt_at_start(path, None, str(problem).removeprefix(f"{path}: "))
        return
    by_last_offset = {header.last_offset: header for header in batches.values()}
    for slot, (timestamp, relative) in enumerate(zip(index.timestamps, index.offsets, strict=True)):
        header = by_last_offset.get(segment.base_offset + relative)
        if header is None or header.max_timestamp != timestamp:
            why = f"no batch ends at offset {segment.base_offset + relative} with timestamp {timestamp}"
            yield _rebuilt_at_start(path, slot * index.entry_size, why)
            return


def _rebuilt_at_start(path: str, position: int | None, problem: str) -> Finding:
    return Finding(path, position, problem, "The next start rebuilds it from the log.", damage=False)


def _headers(disk: Disk, segment: SegmentFiles) -> tuple[list[tuple[int, BatchHeader]], str]:
    file = disk.open(segment.path("log"), writable=False)
    found: list[tuple[int, BatchHeader]] = []
    try:
        base = segment.base_offset
        for position, fields in scan_batches(file, 0, file.size(), offset=base, base_offset=base, check_crc=False):
            found.append((position, BatchHeader(fields)))
    except BadBatch as bad:
        return found, f"bad {bad}"
    finally:
        file.close()
    return found, "ok"


def _size(disk: Disk, path: str) -> int:
    file = disk.open(path, writable=False)
    try:
        return file.size()
    finally:
        file.close()


def _text(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
