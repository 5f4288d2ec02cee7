"""Reads of a range of offsets or times, partition by partition.

End offsets are taken at the time of the call, so a read of a busy topic ends. ListOffsets finds the start for a time;
the end is checked row by row, because a producer may write an old timestamp after a new one. Calls penstock_client
and raises its errors.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_client.columns import Columns
from penstock_client.connect import connection_options
from penstock_client.errors import PenstockClientError
from penstock_client.offsets import Range
from penstock_client.protocol.cluster import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Cluster
from penstock_client.scan import ScanOptions, fetch_rows

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_STAMP: Final = pa.timestamp("us", tz="UTC")
COLUMNS: Final = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _STAMP,
    "timestamp_type": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": _HEADERS,
}
# The decoder's column names, if they differ.
_DECODED: Final = {"timestamp_type": "timestampType"}

ISOLATION_LEVELS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}

Time = int | datetime
Partitions = Collection[int] | Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Records:
    """A read that has not started. Each `reader()`, and each use as an Arrow stream, reads from the start."""

    options: ScanOptions
    topic: str
    topic_id: bytes
    ranges: tuple[Range, ...]
    schema: pa.Schema
    last_timestamp: int | None
    first_timestamp: int | None

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def read_all(self) -> pa.Table:
        return self.reader().read_all()

    def read_pandas(self) -> Any:
        return self.reader().read_pandas()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    @property
    def row_count_max(self) -> int:
        """Return an upper bound of the row count: markers and compacted records leave gaps."""
        return sum(wanted.end - wanted.start for wanted in self.ranges)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        fields = [pa.field(_DECODED.get(name, name), COLUMNS[name]) for name in self.schema.names]
        stamped = self.first_timestamp is not None or self.last_timestamp is not None
        if stamped and "timestamp" not in self.schema.names:
            fields.append(pa.field("timestamp", _STAMP))
        decoded = pa.schema(fields)
        for wanted in self.ranges:
            columns = Columns(decoded, self.topic, wanted.partition)
            for batch in fetch_rows(self.options, wanted, self.topic_id, columns):
                kept = self._within(batch) if stamped else batch
                arrays = [kept.column(at) for at in range(len(self.schema))]
                if len(kept):
                    yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        stamps = batch.column(batch.schema.get_field_index("timestamp"))
        keep = None
        if self.first_timestamp is not None:
            keep = pc.greater_equal(stamps, pa.scalar(self.first_timestamp * 1000, _STAMP))
        if self.last_timestamp is not None:
            early = pc.less_equal(stamps, pa.scalar(self.last_timestamp * 1000 + 999, _STAMP))
            keep = early if keep is None else pc.and_(keep, early)
        return batch.filter(keep)


def read(
    topic: str,
    *,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    partitions: Partitions | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
    first_timestamp: Time | None = None,
    last_timestamp: Time | None = None,
    isolation: str = "read_uncommitted",
    columns: Sequence[str] | None = None,
    settings: dict[str, str] | None = None,
) -> Records:
    """Return the current records of a topic within the limits (inclusive), in order within each partition.

    Times are milliseconds since 1970 or datetimes. `settings` are Kafka client settings (security.protocol ...).
    """
    chosen = _checked(columns)
    if isolation not in ISOLATION_LEVELS:
        raise PenstockClientError(f"isolation {isolation!r} is not one of {', '.join(ISOLATION_LEVELS)}")
    options = ScanOptions(
        connect=connection_options({"bootstrap.servers": bootstrap, **(settings or {})}),
        isolation=ISOLATION_LEVELS[isolation],
        fail_on_data_loss=False,
    )
    first_ms, last_ms = _milliseconds(first_timestamp), _milliseconds(last_timestamp)
    with options.connect.cluster() as cluster:
        cluster.refresh([topic])
        found = cluster.topic(topic)
        indexes = [index for index in sorted(found.leaders) if _is_wanted(index, partitions)]
        starts, ends = _bounds(cluster, topic, indexes, first_ms, options.isolation)
    ranges = (
        Range(
            topic,
            index,
            starts[index] if first_offset is None else max(starts[index], first_offset),
            ends[index] if last_offset is None else min(ends[index], last_offset + 1),
        )
        for index in indexes
    )
    return Records(
        options=options,
        topic=topic,
        topic_id=found.topic_id,
        ranges=tuple(wanted for wanted in ranges if wanted.start < wanted.end),
        schema=pa.schema([pa.field(name, COLUMNS[name]) for name in chosen]),
        first_timestamp=first_ms,
        last_timestamp=last_ms,
    )


def _bounds(
    cluster: Cluster, topic: str, indexes: Iterable[int], first_ms: int | None, isolation: int
) -> tuple[dict[int, int], dict[int, int]]:
    places = [(topic, index) for index in indexes]
    ends = cluster.list_offsets(dict.fromkeys(places, LATEST), isolation=isolation)
    # In ListOffsets, times before 1970 are invalid or mean an end of the log. Rows are compared one by one anyway.
    starts = cluster.list_offsets(dict.fromkeys(places, EARLIEST if first_ms is None or first_ms < 0 else first_ms))
    # No record has this timestamp or a later one: nothing to read.
    return (
        {index: starts[topic, index] if starts[topic, index] >= 0 else ends[topic, index] for _, index in places},
        {index: ends[topic, index] for _, index in places},
    )


def _is_wanted(index: int, partitions: Partitions | None) -> bool:
    if partitions is None:
        return True
    return partitions(index) if callable(partitions) else index in partitions


def _checked(columns: Sequence[str] | None) -> Sequence[str]:
    chosen = list(COLUMNS) if columns is None else list(columns)
    unknown = [name for name in chosen if name not in COLUMNS]
    if unknown:
        raise ValueError(f"unknown columns {', '.join(unknown)}; the columns are {', '.join(COLUMNS)}")
    return chosen


def _milliseconds(time: Time | None) -> int | None:
    return round(time.timestamp() * 1000) if isinstance(time, datetime) else time
