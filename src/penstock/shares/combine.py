"""Merging of written ranges: for each offset the higher delivery count wins, then the higher state.

The result does not depend on the order of the writes, so a write that is repeated or arrives late does no harm.
Pure.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from penstock.shares.states import StateRange


def combine(current: Sequence[StateRange], added: Iterable[StateRange], *, start_offset: int) -> tuple[StateRange, ...]:
    """Return the ranges from the start offset on, sorted and disjoint; `current` is sorted and disjoint already."""
    ranges = list(current)
    for each in added:
        if each.first <= each.last:
            _insert(ranges, each)
    return tuple(_joined(ranges, start_offset))


def _insert(ranges: list[StateRange], added: StateRange) -> None:
    begin = bisect_left(ranges, added.first, key=lambda each: each.last)
    end = begin
    pieces: list[StateRange] = []
    position = added.first
    while end < len(ranges) and ranges[end].first <= added.last:
        present = ranges[end]
        end += 1
        if present.first < position:
            pieces.append(present._replace(last=position - 1))
        elif position < present.first:
            pieces.append(added._replace(first=position, last=present.first - 1))
        first, last = max(position, present.first), min(present.last, added.last)
        winner = max(present, added, key=lambda each: (each.delivery_count, each.state))
        pieces.append(winner._replace(first=first, last=last))
        if present.last > last:
            pieces.append(present._replace(first=last + 1))
        position = last + 1
    if position <= added.last:
        pieces.append(added._replace(first=position))
    ranges[begin:end] = pieces


def _joined(ranges: Iterable[StateRange], start_offset: int) -> Iterable[StateRange]:
    """Drop what is below the start offset and join neighbours that are alike."""
    held: StateRange | None = None
    for each in ranges:
        if each.last < start_offset:
            continue
        if each.first < start_offset:
            each = each._replace(first=start_offset)
        if held is not None and held.last + 1 == each.first and held[2:] == each[2:]:
            held = held._replace(last=each.last)
            continue
        if held is not None:
            yield held
        held = each
    if held is not None:
        yield held
