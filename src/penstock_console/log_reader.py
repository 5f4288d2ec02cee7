"""Reads ranges of offsets of a topic. Joins no group and commits nothing.

Positions and cursors in, records out. Each read is bounded by a count, by bytes and by time (`Budget`); what a limit
left unread is in the cursor. Calls penstock.arrow. Raises ApiError, ActionError and PenstockClientError.
"""

import heapq
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.actions.connection import Connection, check_reachable
from penstock.actions.errors import unknown_partition
from penstock.actions.masks import find_mask
from penstock.actions.positions import AtOffset, AtTime, Earliest, Last, Latest, Position
from penstock.actions.record_format import LineRecord
from penstock_client.connect import ConnectionOptions, connection_options
from penstock_client.offsets import Range
from penstock_client.protocol.cluster import EARLIEST, LATEST
from penstock_console.errors import bad_request
from penstock_console.lookup import find_topic

if TYPE_CHECKING:
    from penstock.arrow import Records
    from penstock_console.clusters import ClusterAccess

READ_COLUMNS: Final = ("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
FETCH_SIZE: Final = 512 * 1024
READ_S: Final = 10.0
READ_SIZE_MAX: Final = 64 * 1024 * 1024
WINDOW_MAX: Final = 100_000
_CURSOR: Final = re.compile(r"\d{1,9}:\d{1,19}(,\d{1,9}:\d{1,19})*", re.ASCII)

Offsets = dict[int, int]
"""An offset by partition."""


@dataclass(slots=True)
class Budget:
    """How much a read may still take."""

    size: int = READ_SIZE_MAX
    deadline: float = field(default_factory=lambda: time.monotonic() + READ_S)
    scanned: int = 0
    scanned_bytes: int = 0

    def spend(self, record: LineRecord) -> None:
        self.scanned += 1
        self.scanned_bytes += len(record.value or b"") + len(record.key or b"")

    def limit(self) -> str | None:
        """Return the limit that was reached, or None."""
        if self.scanned_bytes >= self.size:
            return "bytes"
        return "time" if time.monotonic() >= self.deadline else None


class Log(NamedTuple):
    """The partitions of a topic that are read, and their ends."""

    topic: str
    earliest: Offsets
    latest: Offsets
    records: "Records"
    """A read of all of them, from which reads of ranges are made."""
    hide: Any


class Page(NamedTuple):
    records: list[LineRecord]
    cursor: Offsets
    """Where the next page begins: the next offset to read, or the end of what is to be read backwards."""
    ended: str


def open_log(access: "ClusterAccess", topic: str, partitions: Sequence[int] | None, isolation: str) -> Log:
    import pyarrow

    from penstock.arrow.reading import COLUMNS, ISOLATION_LEVELS, Records
    from penstock_client.scan import ScanOptions

    # Reading waits for a cluster that is gone; this reports it.
    check_reachable(access.connection)
    count = len(find_topic(access, topic).partitions)
    for index in partitions or ():
        if index >= count:
            raise unknown_partition(topic, index, count)
    options = ScanOptions(
        connect=reading_options(access.connection),
        isolation=ISOLATION_LEVELS[isolation],
        fail_on_data_loss=False,
        fetch_bytes=FETCH_SIZE,
    )
    if options.connect.close_idle not in access.on_close:
        access.on_close.append(options.connect.close_idle)
    places = [(topic, index) for index in (sorted(partitions) if partitions else range(count))]
    with options.connect.cached_cluster() as cluster:
        cluster.refresh([topic])
        topic_id = cluster.topic(topic).topic_id
        earliest = cluster.list_offsets(dict.fromkeys(places, EARLIEST))
        latest = cluster.list_offsets(dict.fromkeys(places, LATEST), isolation=options.isolation)
    mask = find_mask(access.masks, topic)
    return Log(
        topic,
        {index: earliest[topic, index] for _, index in places},
        {index: latest[topic, index] for _, index in places},
        Records(
            options=options,
            topic=topic,
            topic_id=topic_id,
            ranges=(),
            schema=pyarrow.schema([pyarrow.field(name, COLUMNS[name]) for name in READ_COLUMNS]),
            last_timestamp=None,
            first_timestamp=None,
        ),
        mask.hide_in if mask is not None else lambda record: record,
    )


def reading_options(connection: Connection) -> ConnectionOptions:
    """Return how reads connect to a cluster."""
    return connection_options({"bootstrap.servers": connection.bootstrap, **connection.security}, deadline_s=READ_S)


def start_of(log: Log, position: Position) -> Offsets:
    """Return the offset of each partition at a position."""
    match position:
        case Earliest():
            return dict(log.earliest)
        case Latest():
            return dict(log.latest)
        case Last(count):
            return {index: max(log.earliest[index], end - count) for index, end in log.latest.items()}
        case AtOffset(offset):
            return {index: min(max(log.earliest[index], offset), end) for index, end in log.latest.items()}
        case AtTime(timestamp_ms):
            with log.records.options.connect.cached_cluster() as cluster:
                found = cluster.list_offsets({(log.topic, index): timestamp_ms for index in log.latest})
            starts = {index: found[log.topic, index] for index in log.latest}
            return {index: start if start >= 0 else log.latest[index] for index, start in starts.items()}


def read_range(log: Log, index: int, start: int, end: int) -> Iterator[LineRecord]:
    """Yield the records of a range, in order."""
    if start >= end:
        return
    wanted = replace(log.records, ranges=(Range(log.topic, index, start, end),))
    for batch in wanted:
        for row in batch.to_pylist():
            yield log.hide(_record(log.topic, row))


def _record(topic: str, row: Mapping[str, Any]) -> LineRecord:
    return LineRecord(
        key=row["key"],
        value=row["value"],
        headers=[(header["key"], header["value"]) for header in row["headers"] or ()],
        timestamp_ms=None if row["timestamp"] is None else milliseconds(row["timestamp"]),
        partition=row["partition"],
        offset=row["offset"],
        topic=topic,
        timestamp_type=row["timestamp_type"],
    )


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def read_forward(log: Log, starts: Mapping[int, int], count: int, budget: Budget) -> Page:
    """Read the oldest records from the cursor on, merged by their timestamps."""
    found: dict[int, list[LineRecord]] = {}
    limit = None
    for index, end in log.latest.items():
        found[index] = []
        for record in read_range(log, index, max(starts.get(index, end), log.earliest[index]), end):
            budget.spend(record)
            found[index].append(record)
            limit = limit or budget.limit()
            if len(found[index]) >= count or limit:
                break
    taken = list(heapq.merge(*found.values(), key=age))[:count]
    cursor = {}
    for index, end in log.latest.items():
        own = [each.offset for each in taken if each.partition == index and each.offset is not None]
        # Everything that was read is taken, and nothing is left: skip markers at the end, too.
        is_complete = len(own) == len(found[index]) < count and not limit
        cursor[index] = end if is_complete else own[-1] + 1 if own else min(starts.get(index, end), end)
    is_at_end = all(cursor[index] >= end for index, end in log.latest.items())
    return Page(taken, cursor, limit or ("end" if is_at_end else "count"))


def read_backward(log: Log, befores: Mapping[int, int], count: int, budget: Budget) -> Page:
    """Read the newest records before the cursor, the newest first."""
    found: dict[int, list[LineRecord]] = {}
    began: Offsets = {}
    limit = None
    for index, end in log.latest.items():
        before = min(befores.get(index, end), end)
        found[index], began[index] = _last(log, index, before, count, budget)
        limit = limit or budget.limit()
    taken = sorted((each for own in found.values() for each in own), key=age, reverse=True)[:count]
    cursor = {}
    for index, earliest in log.earliest.items():
        own = [each.offset for each in taken if each.partition == index and each.offset is not None]
        is_complete = len(own) == len(found[index])
        cursor[index] = (
            began[index] if is_complete else own[-1] if own else min(befores.get(index, 2**63), log.latest[index])
        )
        cursor[index] = max(cursor[index], earliest)
    is_at_end = all(cursor[index] <= earliest for index, earliest in log.earliest.items())
    return Page(taken, cursor, limit or ("end" if is_at_end else "count"))


def _last(log: Log, index: int, before: int, count: int, budget: Budget) -> tuple[list[LineRecord], int]:
    """Return the last records before an offset, and the offset from which on everything was read."""
    earliest, size = log.earliest[index], count
    found: list[LineRecord] = []
    start = before
    # Markers and compacted records leave gaps, so a range may hold fewer records than offsets.
    while start > earliest and len(found) < count and not budget.limit():
        part = _whole_range(log, index, max(earliest, start - size), start, budget)
        if part is None and found:
            break
        if part is None:
            # A page shows at least one record, however large it is.
            budget.scanned_bytes = 0
            size = max(1, size // 8)
            continue
        found = part + found
        start = max(earliest, start - size)
        size = min(size * 4, WINDOW_MAX)
    if len(found) > count:
        found = found[-count:]
        start = found[0].offset or 0
    return found, start


def _whole_range(log: Log, index: int, start: int, end: int, budget: Budget) -> list[LineRecord] | None:
    """Return all records of a range; None if they exceed the budget and are more than one."""
    found: list[LineRecord] = []
    for record in read_range(log, index, start, end):
        budget.spend(record)
        found.append(record)
        if budget.limit() and end - start > 1:
            return None
    return found


def age(record: LineRecord) -> tuple[int, int, int]:
    """Return what records are sorted by."""
    return record.timestamp_ms or 0, record.partition or 0, record.offset or 0


def parse_cursor(name: str, text: str) -> Offsets:
    """Parse `0:4100,1:3990`."""
    if not _CURSOR.fullmatch(text):
        raise bad_request(f"Invalid {name} '{text[:100]}': expected PARTITION:OFFSET,..., for example 0:42,1:17.")
    pairs = (part.split(":") for part in text.split(","))
    return {int(index): int(offset) for index, offset in pairs}


def render_cursor(offsets: Mapping[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in sorted(offsets.items()))


def parse_partitions(text: str) -> list[int] | None:
    """Parse `0,2`; None stands for all partitions."""
    if not text:
        return None
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        raise bad_request(f"Invalid partition '{text[:100]}': expected numbers separated by commas, for example 0,2.")
    return sorted({int(part) for part in text.split(",")})
