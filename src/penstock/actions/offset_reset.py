"""Plans for resetting the offsets of a group. No I/O; groups.py reads the state and commits the new offsets.

An offset outside the log is moved to the nearest end of the log, as Kafka's own tool does.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.actions.errors import ActionError
from penstock.actions.positions import AtOffset, AtTime, Earliest, Latest


class ShiftBy(NamedTuple):
    """`distance` offsets forward, or backward if negative."""

    distance: int


Target = Earliest | Latest | AtOffset | AtTime | ShiftBy


class PartitionState(NamedTuple):
    """The offsets of one partition; None if there is no such offset."""

    topic: str
    partition: int
    committed: int | None
    earliest: int
    latest: int
    at_time: int | None = None


class OffsetReset(NamedTuple):
    """The new offset of one partition."""

    topic: str
    partition: int
    current: int | None
    new: int
    latest: int
    note: str = ""


def parse_topic_partitions(texts: Sequence[str]) -> dict[str, set[int] | None]:
    """Parse TOPIC or TOPIC:0,2; None stands for all partitions."""
    partitions: dict[str, set[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise ActionError(f"Invalid topic '{text}': expected TOPIC or TOPIC:PARTITION,..., for example orders:0,2.")
        if not colon:
            partitions[topic] = None
        elif (chosen := partitions.setdefault(topic, set())) is not None:
            chosen.update(int(number) for number in numbers.split(","))
    return partitions


def plan_reset(state: PartitionState, target: Target) -> OffsetReset:
    """Return the new offset of one partition."""
    note = ""
    match target:
        case Earliest():
            wanted = state.earliest
        case Latest():
            wanted = state.latest
        case AtOffset(offset):
            wanted = offset
        case AtTime():
            wanted = state.latest if state.at_time is None else state.at_time
            note = "no record is that new: moved to the end" if state.at_time is None else ""
        case ShiftBy(distance):
            if state.committed is None:
                raise ActionError(
                    f"Cannot shift the offset of {state.topic}-{state.partition}: the group has committed none. "
                    "Reset it to the earliest, the latest or a given offset."
                )
            wanted = state.committed + distance
    new = min(max(wanted, state.earliest), state.latest)
    if new != wanted:
        note = f"{wanted} is outside {state.earliest} to {state.latest}"
    return OffsetReset(state.topic, state.partition, state.committed, new, state.latest, note)
