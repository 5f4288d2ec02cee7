"""The shape of a log: its start and end, the offsets of its epochs, and how much is durable.

The driver has the bytes. Computes where two logs diverge; refuses nothing.
"""

from bisect import bisect_right

from penstock.model.ids import LeaderEpoch, Offset
from penstock.raft.messages import EpochEnd

NO_RECORDS = EpochEnd(epoch=LeaderEpoch(0), end_offset=Offset(0))
"""The end of an empty log: epoch 0 never has a leader."""


class LogShape:
    __slots__ = ("_epochs", "_starts", "durable_offset", "end_offset", "snapshot")

    def __init__(self, *, snapshot: EpochEnd = NO_RECORDS) -> None:
        self.snapshot = snapshot
        self.end_offset = snapshot.end_offset
        self.durable_offset = snapshot.end_offset
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []

    @property
    def start_offset(self) -> Offset:
        return self.snapshot.end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Return the epoch of the last record, or of the snapshot if there are no records after it."""
        return self._epochs[-1] if self._epochs else self.snapshot.epoch

    def append(self, *, last_offset: Offset, epoch: LeaderEpoch) -> None:
        assert last_offset >= self.end_offset, "a log grows only at its end"
        assert epoch >= self.last_epoch, "epochs never decrease in a log"
        if epoch > self.last_epoch or not self._epochs:
            self._epochs.append(epoch)
            self._starts.append(self.end_offset)
        self.end_offset = Offset(last_offset + 1)

    def truncate_to(self, offset: Offset) -> None:
        assert self.start_offset <= offset <= self.end_offset, "the offset to truncate to is outside the log"
        self.end_offset = offset
        self.durable_offset = min(self.durable_offset, offset)
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()

    def start_at(self, snapshot: EpochEnd) -> None:
        """Drop the records that a snapshot of this log contains."""
        assert self.start_offset <= snapshot.end_offset <= self.durable_offset, "a snapshot must be durable"
        kept = [
            (epoch, max(start, snapshot.end_offset))
            for epoch, start, end in zip(self._epochs, self._starts, [*self._starts[1:], self.end_offset], strict=True)
            if end > snapshot.end_offset
        ]
        self._epochs = [epoch for epoch, _ in kept]
        self._starts = [start for _, start in kept]
        self.snapshot = snapshot

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """Return the log's latest epoch up to this one, and its end; None if it is before the snapshot's."""
        index = bisect_right(self._epochs, epoch)
        end = self._starts[index] if index < len(self._starts) else self.end_offset
        if index:
            return EpochEnd(epoch=self._epochs[index - 1], end_offset=end)
        if epoch >= self.snapshot.epoch:
            return EpochEnd(epoch=self.snapshot.epoch, end_offset=self.start_offset)
        return None

    def start_of(self, epoch: LeaderEpoch) -> Offset:
        """Return the offset of the epoch's first record, or a later one; the log's end if it has none."""
        if epoch == self.snapshot.epoch and self.start_offset > 0:
            return Offset(self.start_offset - 1)
        index = bisect_right(self._epochs, epoch) - 1
        return self._starts[index] if index >= 0 and self._epochs[index] == epoch else self.end_offset

    def divergence(self, *, offset: Offset, epoch: LeaderEpoch) -> EpochEnd | None:
        """Return where a log with this end offset and last epoch diverges from this one; None if it does not.

        A result below the start of this log means that the other node needs a snapshot.
        """
        own = self.epoch_end(epoch)
        if own is None:
            return NO_RECORDS
        return None if own.epoch == epoch and own.end_offset >= offset else own

    def common_end(self, diverging: EpochEnd) -> Offset:
        """Return how much of this log can agree with a leader's log in which that epoch ends there."""
        own = self.epoch_end(diverging.epoch)
        if own is None:
            return self.start_offset
        return min(own.end_offset, diverging.end_offset) if own.epoch == diverging.epoch else own.end_offset
