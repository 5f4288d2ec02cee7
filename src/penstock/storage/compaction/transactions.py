"""Which batches of a walk belong to aborted transactions, and which markers nobody needs any more.

Told of every batch in order. A marker is done with once a whole walk meets no batch of its
transaction: that is known when the marker comes, and the batches before it did not.
"""

from collections.abc import Iterable

from penstock.storage.marker import read_marker
from penstock.storage.producer_state import EndedTransaction
from penstock.wire.batch import TRANSACTIONAL, Buffer, HeaderTuple


class TransactionTracker:
    """The transactions on the way through a log, from its first batch or from any other."""

    __slots__ = ("_aborted", "_committed", "_ended", "_open", "_slot")

    def __init__(self, aborted: Iterable[EndedTransaction], *, start: int) -> None:
        """`start` is the first offset of the walk: what was ended before it does not matter."""
        self._aborted = sorted(
            (each for each in aborted if each.last_offset >= start), key=lambda each: each.first_offset
        )
        self._slot = 0
        # By producer: the aborted transaction under way, and whether a batch of it was met.
        self._open: dict[int, tuple[EndedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self._ended: list[EndedTransaction] = []

    def take_ended(self) -> list[EndedTransaction]:
        """Return the aborted transactions with batches whose markers have come by since the last time."""
        ended, self._ended = self._ended, []
        return ended

    def is_aborted(self, header: HeaderTuple) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        if not header[5] & TRANSACTIONAL:
            return False
        self._advance_to(header[0] + header[6])
        producer_id = header[9]
        found = self._open.get(producer_id)
        if found is None or found[0].last_offset < header[0]:
            self._committed.add(producer_id)
            return False
        if not found[1]:
            self._open[producer_id] = (found[0], True)
        return True

    def is_obsolete_marker(self, header: HeaderTuple, batch: Buffer) -> bool:
        """Whether a control batch ends a transaction of which no batch was met."""
        self._advance_to(header[0] + header[6])
        if header[12] == 0:
            return True
        marker = read_marker(batch)
        if marker is None:
            return False
        if marker.commit:
            obsolete = header[9] not in self._committed
            self._committed.discard(header[9])
            return obsolete
        found = self._open.pop(header[9], None)
        if found is None or not found[1]:
            return True
        self._ended.append(found[0])
        return False

    def _advance_to(self, offset: int) -> None:
        while self._slot < len(self._aborted) and self._aborted[self._slot].first_offset <= offset:
            ended = self._aborted[self._slot]
            self._open[ended.producer_id] = (ended, False)
            self._slot += 1
