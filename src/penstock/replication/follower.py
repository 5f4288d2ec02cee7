"""What a follower does with one partition of its leader's answer. Pure.

Ordinary answers (records, no error, no divergence) are appended by fetcher.py without asking here.
This module decides the rest: where to cut, when to begin anew, how long to wait. The table of truncation
stands in docs/internals/replication.md; a high watermark is no point to cut at (KIP-101, KIP-279).
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
"""Nodes hear of a new leader some milliseconds apart: who asks too early asks again soon."""

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
    """Truncate to the offset: the logs part there."""
    RESTART = 2
    """Drop everything and begin at the offset: nothing that is here is in the leader's log any more."""
    PAUSE = 3
    """Leave the partition alone for a while."""


class Step(NamedTuple):
    kind: Kind
    offset: int = -1
    pause_s: float = 0.0


class OwnLog(Protocol):
    """What is asked of the follower's log."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def epoch_end(self, epoch: int) -> tuple[int, int]: ...


CONTINUE: Final = Step(Kind.CONTINUE)


def on_divergence(log: OwnLog, *, epoch: int, end_offset: int) -> Step:
    """The leader's largest epoch that is not above our last one, and where it ended there."""
    own_epoch, own_end = log.epoch_end(epoch)
    if own_end < 0:
        # Nothing at or below that epoch is known here, so all that is here came later.
        target = end_offset
    elif own_epoch == epoch:
        target = min(own_end, end_offset)
    else:
        # That epoch never reached this log. What came before it may still differ: the next fetch tells.
        target = min(own_end, end_offset) if own_epoch < epoch else end_offset
    if target >= log.end_offset:
        return CONTINUE
    if target < log.start_offset:
        return Step(Kind.RESTART, target)
    return Step(Kind.TRUNCATE, target)


def loses_committed(step: Step, log: OwnLog, mark: int) -> bool:
    """Whether a step would remove records below the follower's own high watermark."""
    is_cut = step.kind in (Kind.TRUNCATE, Kind.RESTART)
    return is_cut and step.offset < mark and log.start_offset < min(mark, log.end_offset)


def on_error(log: OwnLog, code: int, *, leader_start: int, backoff_s: float) -> Step:
    """What to do about an error; `leader_start` is -1 where the answer does not say."""
    if code == OffsetOutOfRange.code:
        below = log.end_offset < leader_start
        empty = log.start_offset == log.end_offset
        if leader_start >= 0 and (below or empty) and log.end_offset != leader_start:
            return Step(Kind.RESTART, leader_start)
        return Step(Kind.PAUSE, pause_s=backoff_s)
    if code in WAITS_FOR_THE_IMAGE:
        return Step(Kind.PAUSE, pause_s=SHORT_PAUSE_S)
    return Step(Kind.PAUSE, pause_s=backoff_s)
