"""Counters of share groups on one node, for the metrics."""

from collections.abc import Iterable

from penstock.shares.states import AcknowledgementBatch, AcknowledgeType


class ShareCounters:
    __slots__ = ("acknowledged", "letter_failures", "letters", "lock_timeouts")

    def __init__(self) -> None:
        self.acknowledged = [0] * len(AcknowledgeType)
        """Acknowledged records by type."""
        self.lock_timeouts = 0
        """Records whose lock has expired."""
        self.letters = 0
        """Dead-letter records that were written."""
        self.letter_failures = 0
        """Writes of dead-letter records that failed and are repeated."""

    def count_acknowledged(self, batches: Iterable[AcknowledgementBatch]) -> None:
        for first, last, types in batches:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                for kind in types:
                    self.acknowledged[kind] += 1
