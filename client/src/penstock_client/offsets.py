"""The offsets of a stream as stored in Spark's checkpoint, and the checks on them. Pure.

The JSON is that of Spark's Kafka connector, `{"topic": {"0": 23}}`, with each topic's id under "#ids". The id shows
whether a topic was deleted and recreated since the checkpoint ('#' is not allowed in topic names).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from penstock_client.errors import DataLoss, PenstockClientError

IDS: Final = "#ids"

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of one partition: from `start` (inclusive) to `end` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> dict[str, Any]:
    """Return the offsets as JSON in a fixed order, because Spark compares the text."""
    out: dict[str, Any] = {IDS: {name: ids[name] for name in sorted({topic for topic, _ in offsets}) if ids.get(name)}}
    for (topic, partition), offset in sorted(offsets.items()):
        out.setdefault(topic, {})[str(partition)] = offset
    return out


def from_json(given: Mapping[str, Any]) -> tuple[Offsets, dict[str, str]]:
    try:
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, partitions in given.items()
            if topic != IDS
            for partition, offset in partitions.items()
        }
        return offsets, dict(given.get(IDS, {}))
    except (AttributeError, TypeError, ValueError):
        raise PenstockClientError(
            f"the checkpoint was not written by a penstock source: {str(given)[:200]}. "
            "Use a separate checkpoint for each query."
        ) from None


def check_same_subscription(before: Iterable[str], now: Iterable[str]) -> None:
    """Raise if the checkpoint has none of the query's topics: it belongs to another query."""
    old, new = set(before), set(now)
    if old and new and not old & new:
        raise PenstockClientError(
            f"the checkpoint belongs to another query: it has offsets of {_names(old)}, but this query reads "
            f"{_names(new)}. Use a separate checkpointLocation for this query."
        )


def check_same_topics(before: Mapping[str, str], now: Mapping[str, str], *, fail: bool) -> set[str]:
    """Return the topics that were deleted and recreated since; raise if that must fail."""
    again = {name for name, old in before.items() if old and now.get(name, old) != old}
    if again and fail:
        raise DataLoss(
            f"{_names(again)} was deleted and recreated since the checkpoint, whose offsets do not apply to the new "
            "topic. Start with a new checkpointLocation, or set failOnDataLoss=false to continue at the beginning "
            "of the new topic."
        )
    return again


def check_within(offsets: Offsets, earliest: Offsets, latest: Offsets, *, fail: bool) -> Offsets:
    """Return the offsets, moving those out of range to the nearest available offset; raise if that must fail."""
    out = {}
    for one, offset in offsets.items():
        low, high = earliest[one], latest[one]
        if low <= offset <= high:
            out[one] = offset
            continue
        if fail:
            raise out_of_range(one, offset, low, high)
        out[one] = low
    return out


def out_of_range(where: TopicPartition, offset: int, earliest: int, latest: int) -> DataLoss:
    name = f"{where[0]}-{where[1]}"
    if offset < earliest:
        reason = f"{earliest - offset} rows were removed by retention or DeleteRecords before they were read"
    else:
        reason = "the log ends before it: it was truncated, or the offset belongs to another topic or cluster"
    return DataLoss(
        f"offset {offset} of {name} is out of range ({earliest} to {latest}): {reason}. "
        "Set failOnDataLoss=false to continue with the available rows, or set other startingOffsets with a new "
        "checkpoint."
    )


def limited(start: Offsets, latest: Offsets, rows_max: int) -> Offsets:
    """Return end offsets for at most about `rows_max` rows, distributed in proportion to each partition's backlog."""
    behind = {one: max(0, end - start[one]) for one, end in latest.items()}
    total = sum(behind.values())
    if total <= rows_max:
        return {one: max(end, start[one]) for one, end in latest.items()}
    out = {}
    left = rows_max
    for one in sorted(behind):
        # At least one row per partition that has any, so that no partition starves.
        share = min(behind[one], max(1 if behind[one] else 0, rows_max * behind[one] // total), left)
        out[one] = start[one] + share
        left -= share
    return out


def split(ranges: Iterable[Range], *, count_least: int | None, rows_max: int | None) -> list[Range]:
    """Split ranges into about `count_least` ranges, each with at most `rows_max` rows."""
    todo = [one for one in ranges if one.size > 0]
    total = sum(one.size for one in todo)
    out: list[Range] = []
    for one in todo:
        pieces = 1
        if count_least and count_least > len(todo):
            pieces = max(1, round(count_least * one.size / total))
        if rows_max:
            pieces = max(pieces, -(-one.size // rows_max))
        pieces = min(pieces, one.size)
        edges = [one.start + one.size * index // pieces for index in range(pieces + 1)]
        out += [Range(one.topic, one.partition, low, high) for low, high in pairwise(edges)]
    return out


def gathered(ranges: Iterable[Range], *, rows_least: int) -> list[list[Range]]:
    """Group adjacent ranges until each group has `rows_least` rows: a task costs more than reading a few more rows."""
    out: list[list[Range]] = []
    rows = 0
    for one in ranges:
        if not out or rows >= rows_least:
            out.append([])
            rows = 0
        out[-1].append(one)
        rows += one.size
    return out


def _names(topics: Iterable[str]) -> str:
    return ", ".join(f"topic {name!r}" for name in sorted(topics))
