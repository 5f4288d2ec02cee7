"""Spark's batch and stream readers. They plan on the driver and read on the executors.

Calls planning.py and penstock_client/offsets.py for offsets, and penstock_client/scan.py or segments.py for rows, and
raises their errors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock_client.errors import PenstockClientError
from penstock_client.offsets import (
    Offsets,
    Range,
    check_same_subscription,
    check_same_topics,
    check_within,
    from_json,
    gathered,
    limited,
    split,
    to_json,
)
from penstock_client.protocol.coordination import Commits
from penstock_spark.topics.options import SourceOptions
from penstock_spark.topics.planning import Planner
from penstock_spark.topics.pushdown import Bounds, bounds_of

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("penstock_spark")


@dataclass
class RangePartition(InputPartition):
    """The range that one task reads, and the id of its topic."""

    wanted: Range
    topic_id: bytes
    segment: Any = None

    def __repr__(self) -> str:
        return f"{self.wanted.topic}-{self.wanted.partition} [{self.wanted.start}, {self.wanted.end})"


@dataclass
class SharedPartition(InputPartition):
    """Small ranges that one task reads in sequence."""

    parts: tuple[RangePartition, ...]

    def __repr__(self) -> str:
        return ", ".join(map(repr, self.parts))


def _read(options: SourceOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, SharedPartition):
        return chain.from_iterable(_read_range(options, schema, part) for part in partition.parts)
    if isinstance(partition, RangePartition):
        return _read_range(options, schema, partition)
    return iter(())  # Spark creates one empty partition if there is none


def _read_range(options: SourceOptions, schema: StructType, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    # Imported only on executors: the driver plans without numpy and Arrow.
    from pyspark.sql.pandas.types import to_arrow_schema

    from penstock_client.columns import Columns
    from penstock_client.scan import fetch_rows

    wanted = partition.wanted
    columns = Columns(to_arrow_schema(schema, timezone="UTC"), wanted.topic, wanted.partition)
    if partition.segment is not None:
        from penstock_spark.topics.segments import segment_rows

        return segment_rows(options, wanted, partition.segment, columns)
    return fetch_rows(options, wanted, partition.topic_id, columns)


def _tasks(options: SourceOptions, planner: Planner, ranges: Iterable[Range]) -> list[InputPartition]:
    todo = [one for one in ranges if one.size > 0]
    tasks: list[InputPartition] = []
    if options.mode != "fetch":
        from penstock_spark.topics.segments import plan

        by_file, todo = plan(options, todo, planner.ids)
        tasks = [RangePartition(one, b"", segment) for one, segment in by_file]
    pieces = split(todo, count_least=options.partitions_least, rows_max=options.rows_per_partition_max)
    # A user who sets many partitions has other work for the tasks.
    is_limited = options.partitions_least or options.rows_per_partition_max
    rows_least = 1 if is_limited else options.rows_per_task_least
    for lot in gathered(pieces, rows_least=rows_least):
        parts = tuple(RangePartition(one, planner.topics[one.topic].topic_id) for one in lot)
        tasks.append(SharedPartition(parts) if len(parts) > 1 else parts[0])
    return tasks


class PenstockBatchReader(DataSourceReader):
    """A reader of the records between two positions."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._bounds = Bounds()
        # Spark rejects a reader with its own `pushFilters` while the setting is off; see pushdown.py.
        self.pushFilters = _OptionalPushdown(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Narrow the ranges by filters on columns that the log is ordered by. Spark filters again."""
        self._bounds = bounds_of(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        with planner.cluster:
            partitions = [one for one in planner.partitions() if self._bounds.allows(*one)]
            if not partitions:
                return []
            start = planner.resolve(self._options.starting, partitions, "starting")
            end = planner.resolve(self._options.ending, partitions, "ending")
            self._narrow_by_time(planner, start, end)
            ranges = [
                Range(name, index, *self._bounds.narrow(start[name, index], end[name, index]))
                for name, index in partitions
            ]
            return _tasks(self._options, planner, ranges)

    def _narrow_by_time(self, planner: Planner, start: Offsets, end: Offsets) -> None:
        """Move the start to the first record with the timestamp; with records out of order, the end stays."""
        if self._bounds.timestamp_least is None:
            return
        found = planner.cluster.list_offsets(dict.fromkeys(start, self._bounds.timestamp_least))
        for one, offset in found.items():
            # Timestamps may decrease: the first record that is new enough is preceded only by older ones.
            start[one] = max(start[one], offset if offset >= 0 else end[one])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._schema, partition)


class _OptionalPushdown:
    """`pushFilters` for sessions with pushdown enabled, without requiring it of others.

    Spark checks whether the method is the base class's. This object claims to be, and is still called if filters are
    pushed; if they are not, Spark filters the rows itself.
    """

    def __init__(self, reader: PenstockBatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.push(filters)


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader on the driver, which lives as long as the query; `read` runs on executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._planner: Planner | None = None
        self._target: Offsets | None = None
        self._warned = False
        self._committed: Offsets | None = None
        self._commits: Commits | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None, "_commits": None}

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        partitions = self.planner.partitions()
        return to_json(self.planner.resolve(self._options.starting, partitions, "starting"), self.planner.ids)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.rows_per_trigger_max is not None:
            return ReadMaxRows(self._options.rows_per_trigger_max)
        if self._options.rows_per_trigger_least is not None:
            return ReadMinRows(self._options.rows_per_trigger_least)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        # The last batch is complete by now; Spark calls `commit` only with the next batch.
        self.commit(start)
        begun, latest = self._available(start)
        if isinstance(limit, ReadMaxRows):
            latest = limited(begun, latest, limit.max_rows)
        elif isinstance(limit, ReadMinRows) and self._target is None:
            few = sum(end - begun[one] for one, end in latest.items()) < limit.min_rows
            latest = begun if few else latest
        return to_json({one: max(end, begun[one]) for one, end in latest.items()}, self.planner.ids)

    def _available(self, start: dict[str, Any]) -> tuple[Offsets, Offsets]:
        """Return where each partition is and how far it may read; new partitions start at their beginning."""
        known, ids = from_json(start)
        partitions = self.planner.partitions()
        check_same_subscription({name for name, _ in known}, {name for name, _ in partitions})
        fail = self._options.fail_on_data_loss
        again = check_same_topics(ids, self.planner.ids, fail=fail)
        self._check_gone(known, partitions)
        latest = self.planner.latest(partitions)
        earliest = self.planner.earliest(partitions)
        begun = {one: earliest[one] if one[0] in again else known.get(one, earliest[one]) for one in partitions}
        begun = check_within(begun, earliest, {one: max(latest[one], begun[one]) for one in latest}, fail=fail)
        self._check_not_truncated(begun, latest)
        if self._target is not None:
            target = self._target
            latest = {one: min(end, target.get(one, begun[one])) for one, end in latest.items()}
        return begun, latest

    def _check_gone(self, known: Offsets, partitions: Sequence[tuple[str, int]]) -> None:
        gone = set(known) - set(partitions)
        if gone and self._options.fail_on_data_loss:
            name, index = min(gone)
            raise PenstockClientError(
                f"the checkpoint has offsets of {name}-{index}, which the query no longer reads. If this is "
                "intended, set failOnDataLoss=false; else check the subscription, or start with a new "
                "checkpointLocation."
            )

    def _check_not_truncated(self, begun: Offsets, latest: Offsets) -> None:
        """Raise if a log ends before a committed offset. An open transaction holds back only the last stable offset."""
        behind = {one for one, end in latest.items() if end < begun[one]}
        if not behind:
            return
        ends = self.planner.cluster.list_offsets(dict.fromkeys(behind, -1))
        earliest = self.planner.earliest(behind)
        for one in behind:
            if ends[one] < begun[one]:
                moved = check_within({one: begun[one]}, earliest, ends, fail=self._options.fail_on_data_loss)
                begun.update(moved)
                latest[one] = max(latest[one], moved[one])

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.planner.latest(self.planner.partitions())

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self.planner.latest(self.planner.partitions()), self.planner.ids)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, begun_ids = from_json(start)
        ends, end_ids = from_json(end)
        self.planner.partitions()
        check_same_topics(end_ids, self.planner.ids, fail=self._options.fail_on_data_loss)
        again = {name for name, old in begun_ids.items() if old and end_ids.get(name, old) != old}
        fresh = [one for one in ends if one not in begun or one[0] in again]
        at_start = self.planner.earliest(fresh) if fresh else {}
        ranges = [Range(*one, at_start.get(one, begun.get(one, 0)), last) for one, last in ends.items()]
        return _tasks(self._options, self.planner, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the query's offsets to its group, for monitoring. Recovery uses Spark's checkpoint."""
        group = self._options.group
        if group is None:
            return
        offsets, _ = from_json(end)
        if offsets == self._committed:
            return
        self._committed = offsets
        if self._commits is None:
            self._commits = Commits(self.planner.cluster, group)
        try:
            # Do not wait for the response: a trigger of ten rows would take noticeably longer.
            self._commits.send(offsets)
        except PenstockClientError as error:
            self._committed = None  # committed again at the next trigger
            if not self._warned:
                log.warning("cannot commit the query's offsets to group %r: %s", group, error)
            self._warned = True

    def stop(self) -> None:
        if self._commits is not None:
            with suppress(PenstockClientError):
                self._commits.wait()
            self._commits = None
        if self._planner is not None:
            self._planner.cluster.close()
            self._planner = None
