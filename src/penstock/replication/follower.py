"""A follower's decisions about one partition of a fetch response. Pure.

fetcher.py appends ordinary records without calling this module, which decides the rest: where to truncate, when to
restart at the leader's log start, how long to wait. The truncation table is in docs/internals/replication.md. A
follower never truncates at a high watermark (KIP-101, KIP-279).
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from penstock.model.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

SHORT_PAUSE_S: Final = 0.05
"""Nodes learn of a new leader some milliseconds apart, so a fetch that comes too early is repeated soon."""

WAITS_FOR_THE_IMAGE: Final = frozenset(
    {
        NotLeaderOrFollower.code,
        FencedLeaderEpoch.code,
        UnknownLeaderEpoch.code,
        UnknownTopicId.code,
        UnknownTopicOrPartition.code,
    }
)


class Kind(IntEnum):
    CONTINUE = 0
    TRUNCATE = 1
    """Truncate to the offset, where the logs diverge."""
    RESTART = 2
    """Remove everything and start at the offset: the leader no longer has any of these records."""
    PAUSE = 3
    """Fetch the partition again after a pause."""


class Step(NamedTuple):
    kind: Kind
    offset: int = -1
    pause_s: float = 0.0


class OwnLog(Protocol):
    """The part of the follower's log that decisions need."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def epoch_end(self, epoch: int) -> tuple[int, int]: ...


CONTINUE: Final = Step(Kind.CONTINUE)


def on_divergence(log: OwnLog, *, epoch: int, end_offset: int) -> Step:
    """Return the step for a log that diverges: the leader's largest epoch not above ours ends at `end_offset`."""
    own_epoch, own_end = log.epoch_end(epoch)
    if own_end < 0:
        # This log has no epoch at or below that one, so all of its records are newer.
        target = end_offset
    elif own_epoch == epoch:
        target = min(own_end, end_offset)
    else:
        # This log has no records of that epoch. Earlier records may differ as well: the next fetch will tell.
        target = min(own_end, end_offset) if own_epoch < epoch else end_offset
    if target >= log.end_offset:
        return CONTINUE
    if target < log.start_offset:
        return Step(Kind.RESTART, target)
    return Step(Kind.TRUNCATE, target)


def loses_committed(step: Step, log: OwnLog, mark: int) -> bool:
    """Return whether a step would remove records below the follower's own high watermark."""
    is_cut = step.kind in (Kind.TRUNCATE, Kind.RESTART)
    return is_cut and step.offset < mark and log.start_offset < min(mark, log.end_offset)


def on_error(log: OwnLog, code: int, *, leader_start: int, backoff_s: float) -> Step:
    """Return the step for an error; `leader_start` is -1 if the response does not contain it."""
    if code == OffsetOutOfRange.code:
        below = log.end_offset < leader_start
        empty = log.start_offset == log.end_offset
        if leader_start >= 0 and (below or empty) and log.end_offset != leader_start:
            return Step(Kind.RESTART, leader_start)
        return Step(Kind.PAUSE, pause_s=backoff_s)
    if code in WAITS_FOR_THE_IMAGE:
        return Step(Kind.PAUSE, pause_s=SHORT_PAUSE_S)
    return Step(Kind.PAUSE, pause_s=backoff_s)
