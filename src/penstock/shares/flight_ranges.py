"""Ranges of offsets in flight, and the writes that they wait for. Plain values; flight.py changes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from penstock.shares.states import AcknowledgementBatch, RecordState, StateRange

_AVAILABLE = RecordState.AVAILABLE


class FlightRange:
    """Neighbouring offsets that share everything."""

    __slots__ = ("available_at", "count", "deadline", "first", "last", "member", "pending", "span", "state", "target")

    def __init__(self, first: int, last: int, state: RecordState, count: int, *, span: int = 0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member: str | None = None
        self.deadline = inf
        """When the lock expires."""
        self.available_at = -inf
        """When a released record may be delivered again."""
        self.pending: StateWrite | None = None
        """The write that must succeed before the range takes its target state."""
        self.target = state
        self.span = span or last - first + 1
        """How many records were first delivered together; deliveries that isolate a poison record halve it."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def part(self, first: int, last: int) -> "FlightRange":
        copy = FlightRange.__new__(FlightRange)
        for name in FlightRange.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.first, copy.last = first, last
        return copy

    def is_like(self, other: "FlightRange") -> bool:
        """Return whether both can be one range."""
        return (
            self.state is other.state
            and self.count == other.count
            and self.pending is None
            and other.pending is None
            and self.member == other.member
            and self.deadline == other.deadline
            and (self.state is not _AVAILABLE or (self.available_at == other.available_at and self.span == other.span))
        )


@dataclass(slots=True, eq=False)
class StateWrite:
    """State to write to the share coordinator."""

    start_offset: int
    complete_count: int
    """The number of finished records at and after the start offset (KIP-1226)."""
    ranges: list[StateRange]
    spans: list[tuple[int, int]] = field(default_factory=list)
    """The offsets that are pending until the write succeeds."""
    kept_count: int = 0
    """How many of the ranges, from the first on, have taken effect already: they are written again if this fails."""


def sorted_ranges(ranges: list[StateRange]) -> list[StateRange]:
    """Sort ranges, and join neighbours that are alike."""
    joined: list[StateRange] = []
    if len(ranges) <= 1:
        return ranges
    (first, last, state, count), *others = sorted(ranges)
    for each in others:
        if each.first == last + 1 and each.state == state and each.delivery_count == count:
            last = each.last
        else:
            joined.append(StateRange(first, last, state, count))
            first, last, state, count = each
    joined.append(StateRange(first, last, state, count))
    return joined


def sorted_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans, and join neighbours."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and joined[-1][1] + 1 == first:
            first = joined.pop()[0]
        joined.append((first, last))
    return joined


def runs(batches: Sequence[AcknowledgementBatch]) -> Iterator[tuple[int, int, int]]:
    """Yield first offset, last offset and type of offsets with the same type."""
    for first, last, types in batches:
        if len(types) == 1:
            yield first, last, types[0]
            continue
        begin = 0
        for index in range(1, len(types) + 1):
            if index == len(types) or types[index] != types[begin]:
                yield first + begin, first + index - 1, types[begin]
                begin = index
