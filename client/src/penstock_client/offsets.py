"""Offsets of a stream as Spark keeps them in its checkpoint, and what may be decided about them; pure.

The JSON is that of Spark's Kafka connector, `{"topic": {"0": 23}}`, and under "#ids" each topic's id, by which a
topic that was deleted and made again is told from the one that the checkpoint speaks of ('#' is in no topic's name).
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
    """Rows of one partition: from `start` up to, and without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> dict[str, Any]:
    """In one order, because Spark compares the text."""
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
            f"the checkpoint's offsets are not of a penstock source: {str(given)[:200]}. "
            "Use a checkpoint of its own for each query."
        ) from None


def check_same_subscription(before: Iterable[str], now: Iterable[str]) -> None:
    """A checkpoint of quite other topics is a mistake, not a change of subscription."""
    old, new = set(before), set(now)
    if old and new and not old & new:
        raise PenstockClientError(
            f"the checkpoint is of another query: it holds offsets of {_names(old)}, and this query reads "
            f"{_names(new)}. Give this query a checkpointLocation of its own."
        )


def check_same_topics(before: Mapping[str, str], now: Mapping[str, str], *, fail: bool) -> set[str]:
    """The topics that were deleted and made again since; refused unless data may be lost."""
    again = {name for name, old in before.items() if old and now.get(name, old) != old}
    if again and fail:
        raise DataLoss(
            f"{_names(again)} was deleted and made again under this query: the checkpoint's offsets mean nothing in "
            "the new topic. Start with a new checkpointLocation, or set failOnDataLoss=false to go on from the new "
            "topic's start."
        )
    return again


def check_within(offsets: Offsets, earliest: Offsets, latest: Offsets, *, fail: bool) -> Offsets:
    """Each offset if it is still there; else refused, or moved to what is there."""
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
        reason = "the log ends before it; it was cut, or the offset is of another topic or cluster"
    return DataLoss(
        f"offset {offset} of {name} is out of range ({earliest} to {latest}): {reason}. "
        "Set failOnDataLoss=false to go on with what is there, or give other startingOffsets with a new checkpoint."
    )


def limited(start: Offsets, latest: Offsets, rows_max: int) -> Offsets:
    """Ends that take at most about `rows_max` rows, shared out by how much each partition has."""
    behind = {one: max(0, end - start[one]) for one, end in latest.items()}
    total = sum(behind.values())
    if total <= rows_max:
        return {one: max(end, start[one]) for one, end in latest.items()}
    out = {}
    left = rows_max
    for one in sorted(behind):
        # At least one row where there is any, so that no partition starves.
        share = min(behind[one], max(1 if behind[one] else 0, rows_max * behind[one] // total), left)
        out[one] = start[one] + share
        left -= share
    return out


def split(ranges: Iterable[Range], *, count_least: int | None, rows_max: int | None) -> list[Range]:
    """Cut ranges so that there are about `count_least`, and none has more than `rows_max` rows."""
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
    """Neighbours together until each lot has so many rows: a task costs more than reading a few rows in another."""
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
