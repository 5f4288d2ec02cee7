"""Verification of a producer's first batch in a transaction by the coordinator (KIP-890).

A guard is created before the request to the coordinator and passed to the append. A marker for the producer in between
invalidates it, because a late batch must not open a transaction that is never ended. With version 2, a marker that ends
an earlier transaction, as its epoch shows, leaves the guard valid. Refuses: OutOfOrderSequence.
"""

from penstock.model.errors import OutOfOrderSequence


class VerificationGuard:
    """The pending verification of one producer whose transaction is not open in the partition yet."""

    __slots__ = ("epoch", "is_old", "lowest_sequence", "starts_at_zero")

    def __init__(self, epoch: int, first_sequence: int, *, starts_at_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = first_sequence
        self.starts_at_zero = starts_at_zero
        # Set by one round of the janitor; the next one drops the guard, because no request waits that long.
        self.is_old = False

    def add(self, epoch: int, first_sequence: int) -> None:
        """Add another batch that waits for the same response."""
        self.is_old = False
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, first_sequence
        elif epoch == self.epoch and first_sequence < self.lowest_sequence:
            self.lowest_sequence = first_sequence

    def check(self, first_sequence: int, *, is_known: bool) -> None:
        """Refuse a batch that would be appended before an earlier one."""
        if self.starts_at_zero and first_sequence != 0 and not is_known:
            raise OutOfOrderSequence(f"a new producer sent sequence {first_sequence}, but 0 is expected")
        if first_sequence > self.lowest_sequence:
            raise OutOfOrderSequence(f"sequence {first_sequence} arrived before {self.lowest_sequence}")
