"""The in-sync set and the high watermark, as pure functions of what each replica holds.

Theory in docs/internals/. Called by partition.py only.
"""

from collections.abc import Sequence

from penstock.model.ids import Offset


def advance_high_watermark(mark: Offset, *, ends_in_sync: Sequence[Offset]) -> Offset:
    """Return the offset up to which every in-sync replica holds the log durably.

    The mark never moves back. A replica may rejoin with a shorter log, but what
    a consumer has once been shown must stay readable.
    """
    assert ends_in_sync, "the leader is always in its own in-sync set"
    return max(mark, min(ends_in_sync))


def effective_min_isr(min_insync_replicas: int, *, replica_count: int) -> int:
    """A topic of one replica can be written although min.insync.replicas says two."""
    return min(min_insync_replicas, replica_count)
