"""A producer's first batch in a transaction, while the coordinator is asked about it (KIP-890).

Taken before the question and handed in with the batch. A marker for the producer that
comes between makes it worthless: a late batch must not open a transaction that nobody
will end. Not so if it ends the transaction before the batch's, as its epoch tells with
version 2. Refuses: OutOfOrderSequence.
"""

from penstock.model.errors import OutOfOrderSequence


class VerificationGuard:
    """What is known of one producer whose transaction is not open in the partition yet."""

    __slots__ = ("epoch", "is_old", "lowest_sequence", "starts_at_zero")

    def __init__(self, epoch: int, first_sequence: int, *, starts_at_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = first_sequence
        self.starts_at_zero = starts_at_zero
        # Seen by one round of the janitor: the next one drops it, since nobody waits so long for a coordinator.
        self.is_old = False

    def add(self, epoch: int, first_sequence: int) -> None:
        """Note another batch that waits for the same answer."""
        self.is_old = False
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, first_sequence
        elif epoch == self.epoch and first_sequence < self.lowest_sequence:
            self.lowest_sequence = first_sequence

    def check(self, first_sequence: int, *, is_known: bool) -> None:
        """Refuse a batch that would overtake an earlier one, whose turn has yet to come again."""
        if self.starts_at_zero and first_sequence != 0 and not is_known:
            raise OutOfOrderSequence(f"sequence {first_sequence} of a producer that is new here, and begins at 0")
        if first_sequence > self.lowest_sequence:
            raise OutOfOrderSequence(f"sequence {first_sequence} before {self.lowest_sequence} was written")
