"""Reading of one range of one partition, on an executor, from the leader or from segment files.

The next fetch is in flight while the records of the last one are decoded. Calls records/ for decoding and
columns.py for rows. Raises DataLoss if rows of the range are gone and failOnDataLoss is set.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock_client.connect import ConnectionOptions
from penstock_client.errors import (
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC,
    UNKNOWN_TOPIC_ID,
    BrokerError,
    DataLoss,
)
from penstock_client.offsets import Range, out_of_range
from penstock_client.protocol.cluster import EARLIEST, LATEST, READ_COMMITTED, Cluster
from penstock_client.protocol.connection import Connection, ConnectionLost
from penstock_client.protocol.wire import Reader, Writer
from penstock_client.records.batches import Batch, Visible, scan
from penstock_client.records.decode import decode

if TYPE_CHECKING:
    from penstock_client.columns import Columns

FETCH: Final = 1
_GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
# Spark's JVM manages Arrow memory in chunks of four megabytes. A buffer that does not fit into one, rounded up to a
# power of two, is allocated and freed for each batch, at the cost of a page fault per page.
_STEP_BYTES_MAX: Final = 2 * 1000 * 1000
_GONE_FOR_GOOD_S: Final = 5.0
_NO_ID: Final = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How to read a range of offsets."""

    connect: ConnectionOptions
    isolation: int = READ_COMMITTED
    fail_on_data_loss: bool = True
    fetch_bytes: int = 8 * 1024 * 1024
    rows_per_batch: int = 32_768


@dataclass(slots=True)
class Fetched:
    """The result of one Fetch: the bytes, and the position of the records in them."""

    code: int
    aborted: list[tuple[int, int]]
    data: bytearray
    start: int
    end: int


def fetch_rows(options: ScanOptions, wanted: Range, topic_id: bytes, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Yield every visible row of the range, in order."""
    with options.connect.cached_cluster() as cluster:
        fetcher = _Fetcher(cluster, options, wanted, topic_id)
        for fetched, batches in fetcher.run():
            yield from rows_of(fetched.data, batches, fetcher.wanted, columns, options.rows_per_batch)


def rows_of(
    data: bytearray, batches: list[Batch], wanted: Range, columns: Columns, rows_max: int
) -> Iterator[pa.RecordBatch]:
    """Decode batches, a few thousand rows at a time, and drop rows outside the range."""
    for group in _groups(batches, rows_max):
        records = decode(data, group)
        if group[0].base_offset < wanted.start or group[-1].last_offset >= wanted.end:
            inside = (records.offsets >= wanted.start) & (records.offsets < wanted.end)
            records = records.select(np.nonzero(inside)[0])
        if len(records):
            yield from _in_steps(columns.batch(records))


def _in_steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of a size that fits Spark's memory chunks."""
    count = -(-batch.nbytes // _STEP_BYTES_MAX) or 1
    edges = [batch.num_rows * index // count for index in range(count + 1)]
    return (batch.slice(low, high - low) for low, high in pairwise(edges) if low < high)


def _groups(batches: list[Batch], rows_max: int) -> Iterator[list[Batch]]:
    group: list[Batch] = []
    rows = size = 0
    for batch in batches:
        if group and (rows + batch.record_count > rows_max or size > _GROUP_BYTES_MAX):
            yield group
            group, rows, size = [], 0, 0
        group.append(batch)
        rows += batch.record_count
        size += batch.end - batch.start
    if group:
        yield group


class _Fetcher:
    """The request loop for one range."""

    def __init__(self, cluster: Cluster, options: ScanOptions, wanted: Range, topic_id: bytes) -> None:
        self._cluster = cluster
        self._options = options
        self.wanted = wanted
        self._topic_id = topic_id
        self._next = wanted.start
        self._trouble_since: float | None = None
        self._last_trouble = ""

    def run(self) -> Iterator[tuple[Fetched, list[Batch]]]:
        connection: Connection | None = None
        while self._next < self.wanted.end:
            try:
                if connection is None:
                    connection = self._connect()
                    self._send(connection)
                fetched = _read_fetch(connection.receive(reuse=True))
                batches = self._accept(fetched)
                if self._next < self.wanted.end:
                    self._send(connection)
            except ConnectionLost as error:
                connection = None
                self._wait(str(error))
                continue
            except BrokerError as error:
                if not error.passing:
                    raise
                connection = None
                self._wait(str(error))
                continue
            if batches:
                yield fetched, batches

    def _connect(self) -> Connection:
        if self._trouble_since is not None:
            self._cluster.refresh([self.wanted.topic])
        leader = self._cluster.leader(self.wanted.topic, self.wanted.partition)
        connection = self._cluster.to_node(leader, "fetch")
        if connection.waiting_count:
            self._cluster.drop(leader, "fetch")
            connection = self._cluster.to_node(leader, "fetch")
        return connection

    def _wait(self, what: str) -> None:
        now = time.monotonic()
        self._last_trouble = what
        if self._trouble_since is None:
            self._trouble_since = now
        elif now - self._trouble_since > self._options.connect.deadline_s:
            raise ConnectionLost(
                f"{self.wanted.topic}-{self.wanted.partition} could not be read for "
                f"{self._options.connect.deadline_s:.0f} s: {what}"
            )
        time.sleep(0.1)

    def _send(self, connection: Connection) -> None:
        body = Writer(compact=True).int32(-1).int32(500).int32(1).int32(max(self._options.fetch_bytes, 1 << 20))
        body.int8(self._options.isolation).int32(0).int32(-1)
        body.raw(b"\x02").raw(self._topic_id).raw(b"\x02").int32(self.wanted.partition).int32(-1).int64(self._next)
        body.int32(-1).int64(-1).int32(self._options.fetch_bytes).tags().tags()
        body.raw(b"\x01").string("").tags()
        connection.send(FETCH, 13, body)

    def _accept(self, fetched: Fetched) -> list[Batch]:
        """Return the batches to decode, and advance past everything received."""
        where = f"{self.wanted.topic}-{self.wanted.partition}"
        if fetched.code == OFFSET_OUT_OF_RANGE:
            return self._lost()
        if fetched.code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID):
            return self._topic_gone(fetched.code)
        if fetched.code:
            raise BrokerError(fetched.code, f"reading {where}")
        view = memoryview(fetched.data)
        visible = Visible(fetched.aborted, committed_only=self._options.isolation == READ_COMMITTED)
        found: list[Batch] = []
        before = self._next
        for batch in scan(view, fetched.start, fetched.end):
            if batch.base_offset >= self.wanted.end:
                self._next = self.wanted.end
                break
            self._next = batch.last_offset + 1
            if batch.last_offset >= before and visible(batch, view) and batch.record_count:
                found.append(batch)
        if self._next == before:
            self._wait(f"{where} returned no records at offset {before}, although its end is {self.wanted.end}")
        else:
            self._trouble_since = None
        return found

    def _lost(self) -> list[Batch]:
        where = (self.wanted.topic, self.wanted.partition)
        earliest = self._cluster.list_offsets({where: EARLIEST})[where]
        if self._options.fail_on_data_loss:
            raise out_of_range(where, self._next, earliest, self._cluster.list_offsets({where: LATEST})[where])
        # A batch may begin before the log start: its first rows were removed but are still sent.
        self._next = earliest if earliest > self._next else self.wanted.end
        self.wanted = replace(self.wanted, start=min(self._next, self.wanted.end))
        return []

    def _topic_gone(self, code: int) -> list[Batch]:
        """Retry for a while, because brokers learn about a new topic at different times; then raise."""
        now = time.monotonic()
        if self._trouble_since is None or now - self._trouble_since < _GONE_FOR_GOOD_S:
            self._trouble_since = self._trouble_since or now
            time.sleep(0.2)
            self._cluster.refresh([self.wanted.topic])
            return []
        if not self._options.fail_on_data_loss:
            self._next = self.wanted.end
            return []
        raise DataLoss(
            f"topic {self.wanted.topic!r} was deleted, or deleted and recreated, while it was read "
            "(the broker responded with "
            f"{'UNKNOWN_TOPIC_ID' if code == UNKNOWN_TOPIC_ID else 'UNKNOWN_TOPIC_OR_PARTITION'}). "
            "Start with a new checkpointLocation, or set failOnDataLoss=false to "
            "continue with the available rows."
        )


def _read_fetch(reply: Reader) -> Fetched:
    """Decode the response to a Fetch of a single partition."""
    reply.int32()
    code = reply.int16()
    reply.int32()
    data = reply.data
    assert isinstance(data, bytearray), "frames are read into separate arrays"
    if code or not reply.count():
        return Fetched(code, [], data, 0, 0)
    reply.uuid()
    reply.count()
    reply.int32()
    code = reply.int16()
    for _ in range(3):  # the high watermark, the last stable offset, the log's start
        reply.int64()

    def one() -> tuple[int, int]:
        pair = reply.int64(), reply.int64()
        reply.tags()
        return pair

    aborted = reply.array(one)
    reply.int32()
    start, end = reply.span()
    return Fetched(code, aborted, data, start, end)
