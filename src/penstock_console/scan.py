"""Searches a range of a topic with an SQL condition, window by window, in a child process that can be killed.

The child reads and filters the records itself, so only those that match reach this process.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.actions.record_format import LineRecord
from penstock.sqlview import isolated
from penstock.sqlview.errors import QueryError
from penstock_console.log_reader import Log, Offsets, milliseconds

if TYPE_CHECKING:
    from penstock_console.clusters import ClusterAccess

WINDOW_MIN: Final = 100_000
WINDOW_MAX: Final = 1_600_000
"""Offsets of a window, over all partitions."""
WINDOW_S: Final = 30.0
MEMORY_BYTES: Final = 512 * 1024 * 1024
CHILD_WAIT_S: Final = 120.0
"""How long a stream waits for a child process. Every query that may come first has a shorter limit."""


class Selection(NamedTuple):
    """Conditions on records; empty means any."""

    text: str = ""
    key: str = ""
    where: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(self)

    def matches_plainly(self, record: LineRecord) -> bool:
        """Return whether a record matches the text and the key."""
        text = self.text.encode()
        if text and text not in (record.value or b"") and text not in (record.key or b""):
            return False
        return not self.key or record.key == self.key.encode()

    def condition(self) -> str:
        """Return the SQL condition on the columns of topic()."""
        parts = []
        if self.text:
            quoted = _quoted(self.text)
            parts.append(f"(contains(coalesce(value, ''), {quoted}) OR contains(coalesce(key, ''), {quoted}))")
        if self.key:
            parts.append(f"key = {_quoted(self.key)}")
        if self.where:
            # On lines of its own, because a condition may end with a comment.
            parts.append(f"(\n{self.where}\n)")
        return " AND ".join(parts)


class Window(NamedTuple):
    """What was found in a window, and the cursor after it."""

    records: list[LineRecord]
    scanned: int
    cursor: Offsets


class Scan:
    """A search that another thread can stop."""

    def __init__(self, access: "ClusterAccess", log: Log, selection: Selection, isolation: str) -> None:
        self._access = access
        self._log = log
        self._selection = selection
        self._isolation = isolation
        self._lock = threading.Lock()
        self._kill: Any = None
        self.is_stopped = False

    def stop(self) -> None:
        with self._lock:
            self.is_stopped = True
            if self._kill is not None:
                self._kill()

    def forward(self, starts: Mapping[int, int], count: int) -> Iterator[Window]:
        """Yield windows in the order of offsets until `count` records are found."""
        ends = self._log.latest
        cursor = {index: max(starts.get(index, end), self._log.earliest[index]) for index, end in ends.items()}
        for size in _sizes():
            left = [index for index, end in ends.items() if cursor[index] < end]
            if count <= 0 or not left:
                return
            each = max(size // len(left), 1)
            ranges = {index: range(cursor[index], min(ends[index], cursor[index] + each)) for index in left}
            found = self._query(ranges, count)
            if len(found) < count:
                after = {index: wanted.stop for index, wanted in ranges.items()}
            else:
                after = _after(ranges, found[-1])
            count -= len(found)
            scanned = sum(after[index] - cursor[index] for index in left)
            cursor |= after
            yield Window(found, scanned, dict(cursor))

    def backward(self, befores: Mapping[int, int], count: int) -> Iterator[Window]:
        """Yield windows from the newest offsets to the oldest, until `count` records are found."""
        earliest = self._log.earliest
        cursor = {index: min(befores.get(index, end), end) for index, end in self._log.latest.items()}
        for size in _sizes():
            left = [index for index, first in earliest.items() if cursor[index] > first]
            if count <= 0 or not left:
                return
            each = max(size // len(left), 1)
            ranges = {index: range(max(earliest[index], cursor[index] - each), cursor[index]) for index in left}
            found = self._query(ranges, count, is_newest_first=True)
            if len(found) < count:
                before = {index: wanted.start for index, wanted in ranges.items()}
            else:
                before = _before(ranges, found[-1])
            count -= len(found)
            scanned = sum(cursor[index] - before[index] for index in left)
            cursor |= before
            yield Window(found, scanned, dict(cursor))

    def _query(self, ranges: Mapping[int, range], count: int, *, is_newest_first: bool = False) -> list[LineRecord]:
        """Return the matching records of the ranges, in the order of offsets and then of partitions."""
        order = "DESC" if is_newest_first else "ASC"
        first, last = min(each.start for each in ranges.values()), max(each.stop for each in ranges.values()) - 1
        # The first conditions limit what is fetched, the last one what is searched.
        exact = " OR ".join(
            f'("partition" = {index} AND "offset" BETWEEN {each.start} AND {each.stop - 1})'
            for index, each in ranges.items()
        )
        sql = (
            'SELECT "partition", "offset", epoch_ms(timestamp), timestamp_type, key_bytes, value_bytes, headers FROM ('
            f"SELECT * FROM topic({_quoted(self._log.topic)}, isolation => '{self._isolation}') "
            f'WHERE "partition" IN ({", ".join(map(str, ranges))}) '
            f'AND "offset" >= {first} AND "offset" <= {last} AND ({exact})) AS records '
            f'WHERE {self._selection.condition()} ORDER BY "offset" {order}, "partition" {order} LIMIT {count}'
        )
        connection = self._access.connection
        with isolated.run(
            sql,
            bootstrap=connection.bootstrap,
            settings=connection.security,
            timeout_s=WINDOW_S,
            memory_bytes=MEMORY_BYTES,
            masks={topic: list(paths) for topic, paths in self._access.masks.items()},
            began=self._began,
            wait_s=CHILD_WAIT_S,
        ) as rows:
            found = [_record(self._log.topic, row) for row in rows]
        with self._lock:
            self._kill = None
        return found

    def _began(self, kill: Any) -> None:
        with self._lock:
            if self.is_stopped:
                kill()
                raise QueryError("The search was stopped.")
            self._kill = kill


def _sizes() -> Iterator[int]:
    """Yield how many offsets the windows have: the first results arrive soon, and large windows search faster."""
    size = WINDOW_MIN
    while True:
        yield size
        size = min(size * 4, WINDOW_MAX)


def _after(ranges: Mapping[int, range], last: LineRecord) -> Offsets:
    """Return where to continue after the last record of a search in the order of offsets and then of partitions."""
    offset, partition = last.offset or 0, last.partition or 0
    return {
        index: min(max(each.start, offset + 1 if index <= partition else offset), each.stop)
        for index, each in ranges.items()
    }


def _before(ranges: Mapping[int, range], last: LineRecord) -> Offsets:
    """Return the same for a search from the newest to the oldest."""
    offset, partition = last.offset or 0, last.partition or 0
    return {
        index: min(max(each.start, offset if index >= partition else offset + 1), each.stop)
        for index, each in ranges.items()
    }


def elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _record(topic: str, row: tuple[Any, ...]) -> LineRecord:
    index, offset, timestamp, timestamp_type, key, value, headers = row
    return LineRecord(
        key=key,
        value=value,
        headers=[(header["key"], header["value"]) for header in headers or ()],
        timestamp_ms=timestamp if isinstance(timestamp, int | None) else milliseconds(timestamp),
        partition=index,
        offset=offset,
        topic=topic,
        timestamp_type=timestamp_type,
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
