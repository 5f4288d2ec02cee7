"""Where a group's offsets go in a reset. Values in, values out; group.py asks the cluster and commits.

What lies outside a partition's log is moved to its nearest end, as Kafka's own tool does.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.cli.errors import CommandError
from penstock.actions.positions import AtOffset, AtTime, Earliest, Latest, parse_position


class ShiftBy(NamedTuple):
    """So many records forward, or back if negative."""

    how_many: int


Target = Earliest | Latest | AtOffset | AtTime | ShiftBy


class PartitionState(NamedTuple):
    """What the cluster says of one partition; `committed` and `at_time` may be unknown."""

    topic: str
    partition: int
    committed: int | None
    earliest: int
    latest: int
    at_time: int | None = None


class Move(NamedTuple):
    """One line of the plan."""

    topic: str
    partition: int
    current: int | None
    new: int
    latest: int
    note: str = ""


def parse_target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    to_timestamp: int | None,
    shift_by: int | None,
    now_ms: int,
) -> Target:
    """Return the one target that was asked for."""
    targets: list[Target] = []
    if to_earliest:
        targets.append(Earliest())
    if to_latest:
        targets.append(Latest())
    if to_offset is not None:
        targets.append(AtOffset(to_offset))
    if to_timestamp is not None:
        targets.append(AtTime(to_timestamp))
    if shift_by is not None:
        targets.append(ShiftBy(shift_by))
    if to_datetime is not None:
        moment = parse_position(to_datetime, now_ms=now_ms, option="--to-datetime")
        if not isinstance(moment, AtTime):
            raise CommandError(
                f"--to-datetime does not understand '{to_datetime}': write a moment (2026-01-31T12:00:00Z) "
                "or a time ago (5m)."
            )
        targets.append(moment)
    if len(targets) != 1:
        raise CommandError(
            "Say where to: exactly one of --to-earliest, --to-latest, --to-offset N, --to-datetime WHEN, "
            "--to-timestamp MS or --shift-by N."
        )
    return targets[0]


def parse_topics(texts: Sequence[str]) -> dict[str, set[int] | None]:
    """Read TOPIC or TOPIC:0,2; None stands for all partitions."""
    wanted: dict[str, set[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise CommandError(f"--topic does not understand '{text}': write orders, or orders:0,2 for two partitions.")
        if not colon:
            wanted[topic] = None
        elif (chosen := wanted.setdefault(topic, set())) is not None:
            chosen.update(int(number) for number in numbers.split(","))
    return wanted


def plan_move(state: PartitionState, target: Target) -> Move:
    """Decide where one partition goes."""
    note = ""
    match target:
        case Earliest():
            wished = state.earliest
        case Latest():
            wished = state.latest
        case AtOffset(offset):
            wished = offset
        case AtTime():
            wished = state.latest if state.at_time is None else state.at_time
            note = "nothing is that new: at the end" if state.at_time is None else ""
        case ShiftBy(how_many):
            if state.committed is None:
                # There is nothing to count from; leaving such a partition out would be silent.
                raise CommandError(
                    f"{state.topic}-{state.partition} has no committed offset to shift from: "
                    "choose --to-earliest, --to-latest or --to-offset for it."
                )
            wished = state.committed + how_many
    new = min(max(wished, state.earliest), state.latest)
    if new != wished:
        note = f"{wished} is outside {state.earliest} to {state.latest}"
    return Move(state.topic, state.partition, state.committed, new, state.latest, note)
