"""Recognition of batches of aborted transactions and of obsolete markers during a compaction pass.

Receives every batch in order. A marker is obsolete once a pass finds no batch of its transaction, which is known when
the marker is reached.
"""

from collections.abc import Iterable

from penstock.storage.marker import read_marker
from penstock.storage.producer_state import EndedTransaction
from penstock.wire.batch import TRANSACTIONAL, Buffer, HeaderTuple


class TransactionTracker:
    """The transactions of one pass over a log."""

    __slots__ = ("_aborted", "_committed", "_ended", "_open", "_slot")

    def __init__(self, aborted: Iterable[EndedTransaction], *, start: int) -> None:
        """Track a pass that begins at the offset `start`; transactions that ended earlier are ignored."""
        self._aborted = sorted(
            (each for each in aborted if each.last_offset >= start), key=lambda each: each.first_offset
        )
        self._slot = 0
        # By producer: the current aborted transaction, and whether the pass has found a batch of it.
        self._open: dict[int, tuple[EndedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self._ended: list[EndedTransaction] = []

    def take_ended(self) -> list[EndedTransaction]:
        """Return the aborted transactions with batches whose markers were reached since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def is_aborted(self, header: HeaderTuple) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
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
        """Return whether a control batch ends a transaction without batches in this pass."""
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
