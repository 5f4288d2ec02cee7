"""The outline of a log: where it starts and ends, which epoch wrote which part, how much is durable.

The bytes are the driver's. Answers where two logs part; refuses nothing.
"""

from bisect import bisect_right

from penstock.model.ids import LeaderEpoch, Offset
from penstock.raft.messages import EpochEnd

NO_RECORDS = EpochEnd(epoch=LeaderEpoch(0), end_offset=Offset(0))
"""The end of the log before anything was written: epoch 0 never has a leader."""


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
        """The epoch of the last record, or of the snapshot if there is none after it."""
        return self._epochs[-1] if self._epochs else self.snapshot.epoch

    def append(self, *, last_offset: Offset, epoch: LeaderEpoch) -> None:
        assert last_offset >= self.end_offset, "a log grows at its end"
        assert epoch >= self.last_epoch, "epochs never go back in a log"
        if epoch > self.last_epoch or not self._epochs:
            self._epochs.append(epoch)
            self._starts.append(self.end_offset)
        self.end_offset = Offset(last_offset + 1)

    def truncate_to(self, offset: Offset) -> None:
        assert self.start_offset <= offset <= self.end_offset, "a log is cut within itself"
        self.end_offset = offset
        self.durable_offset = min(self.durable_offset, offset)
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()

    def start_at(self, snapshot: EpochEnd) -> None:
        """Drop what a snapshot of this very log contains."""
        assert self.start_offset <= snapshot.end_offset <= self.durable_offset, "a snapshot contains what is durable"
        kept = [
            (epoch, max(start, snapshot.end_offset))
            for epoch, start, end in zip(self._epochs, self._starts, [*self._starts[1:], self.end_offset], strict=True)
            if end > snapshot.end_offset
        ]
        self._epochs = [epoch for epoch, _ in kept]
        self._starts = [start for _, start in kept]
        self.snapshot = snapshot

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """The latest epoch up to this one that the log knows, and where it ends; None before the snapshot's."""
        index = bisect_right(self._epochs, epoch)
        end = self._starts[index] if index < len(self._starts) else self.end_offset
        if index:
            return EpochEnd(epoch=self._epochs[index - 1], end_offset=end)
        if epoch >= self.snapshot.epoch:
            return EpochEnd(epoch=self.snapshot.epoch, end_offset=self.start_offset)
        return None

    def start_of(self, epoch: LeaderEpoch) -> Offset:
        """Where the first record of the epoch is, or some offset behind it; the log's end if it has none."""
        if epoch == self.snapshot.epoch and self.start_offset > 0:
            return Offset(self.start_offset - 1)
        index = bisect_right(self._epochs, epoch) - 1
        return self._starts[index] if index >= 0 and self._epochs[index] == epoch else self.end_offset

    def divergence(self, *, offset: Offset, epoch: LeaderEpoch) -> EpochEnd | None:
        """Where a log that ends at the offset, in the epoch, parts from this one; None if it does not.

        An answer below the start of this log means that only a snapshot can help.
        """
        mine = self.epoch_end(epoch)
        if mine is None:
            return NO_RECORDS
        return None if mine.epoch == epoch and mine.end_offset >= offset else mine

    def common_end(self, diverging: EpochEnd) -> Offset:
        """How much of this log can agree with a leader's in which that epoch ends there."""
        mine = self.epoch_end(diverging.epoch)
        if mine is None:
            return self.start_offset
        return min(mine.end_offset, diverging.end_offset) if mine.epoch == diverging.epoch else mine.end_offset
