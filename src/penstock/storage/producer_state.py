"""The producer state of a partition: epoch, sequence, last five batches and open transaction of each producer.

`check` and `check_marker` decide before a write and change nothing; `batch_appended` and `marker_appended` apply what
was written, live and in replay. Snapshots have Kafka's format (version 1); the older batches of a producer come before
its newest as entries with the same id, which Kafka reads as earlier states. Refuses: InvalidProducerEpoch,
OutOfOrderSequence, InvalidTxnState, TransactionCoordinatorFenced.
"""

from collections import deque
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.model.errors import (
    Corruption,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from penstock.storage.verification_guard import VerificationGuard
from penstock.wire.batch import TRANSACTIONAL

BATCHES_KEPT: Final = 5
SEQUENCE_MASK: Final = 0x7FFFFFFF
NO_PRODUCER_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFF
SNAPSHOT_VERSION: Final = 1
_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


# Stand for the empty dicts of partitions without producer ids and transactions, which are most of thousands. Never
# changed.
_NO_TRANSACTIONS: Final[dict[int, int]] = {}
_NO_VERIFICATIONS: Final[dict[int, VerificationGuard]] = {}


class WrittenBatch(NamedTuple):
    """One of the last batches of a producer, with what is needed to answer a duplicate."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` ended; every transaction below `stable_offset` had ended by then."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class Producer:
    """One producer id in one partition."""

    __slots__ = (
        "_marker_timestamp",
        "batches",
        "coordinator_epoch",
        "epoch",
        "in_transaction",
        "marker_offset",
        "next_sequence",
        "producer_id",
        "seen_ms",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int, seen_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_KEPT)
        # The broker's time: records may have any timestamp, and a backfill must not lose its state.
        self.seen_ms = seen_ms
        # The attribute bit that its next batch must have: an open transaction accepts no other batches.
        self.in_transaction = 0
        self.txn_first_offset = -1
        self.coordinator_epoch = -1
        self.marker_offset = -1
        self._marker_timestamp = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """Return the last offset of its newest batch, not counting markers."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_timestamp(self) -> int:
        """Return the timestamp of its newest batch or of a later marker."""
        return self.batches[-1].timestamp if self.last_offset > self.marker_offset else self._marker_timestamp

    def wrote(self, first_sequence: int, base_offset: int, last_offset: int, timestamp: int, now_ms: int) -> None:
        """Record its next batch."""
        if first_sequence < 0:
            last_sequence = first_sequence
        else:
            last_sequence = (first_sequence + last_offset - base_offset) & SEQUENCE_MASK
        self.batches.append(WrittenBatch(first_sequence, last_sequence, base_offset, last_offset, timestamp))
        self.next_sequence = (last_sequence + 1) & SEQUENCE_MASK
        self.seen_ms = now_ms

    def set_marker(self, offset: int, timestamp: int, coordinator_epoch: int) -> None:
        self.marker_offset, self._marker_timestamp = offset, timestamp
        self.coordinator_epoch = coordinator_epoch


_NO_PRODUCERS: Final[dict[int, Producer]] = {}


class ProducerState:
    """All producers of one partition, by id."""

    __slots__ = ("_ended", "first_unstable_offset", "open_transactions", "producers", "verifications")

    def __init__(self) -> None:
        self.producers = _NO_PRODUCERS
        # The producer of each open transaction by first offset, lowest first.
        self.open_transactions = _NO_TRANSACTIONS
        # Ended transactions whose marker is not below the high watermark yet: first offset and offset of the marker.
        self._ended = _NO_TRANSACTIONS
        self.first_unstable_offset: int | None = None
        """The first offset of a transaction that is open, or whose marker is not below the high watermark."""
        self.verifications = _NO_VERIFICATIONS

    def __len__(self) -> int:
        return len(self.producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self.producers.values())

    def _add(self, producer_id: int, epoch: int, now_ms: int) -> Producer:
        if self.producers is _NO_PRODUCERS:
            self.producers = {}
        producer = self.producers[producer_id] = Producer(producer_id, epoch, now_ms)
        return producer

    def clear(self) -> None:
        self.producers = _NO_PRODUCERS
        self.open_transactions.clear()
        self._ended.clear()
        self.first_unstable_offset = None
        self.verifications.clear()

    # Checks

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        *,
        transactional: bool = False,
        verified: VerificationGuard | bool = False,
        in_order: bool = True,
    ) -> WrittenBatch | None:
        """Return the earlier append of the same batch, or None if the batch is the next one. Refuses everything else.

        `in_order` is False for the batches of a coordinator on this node, which have no sequence.
        """
        producer = self.producers.get(producer_id)
        if in_order and producer is not None and epoch == producer.epoch and first_sequence != producer.next_sequence:
            for batch in producer.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        if transactional and not self.has_open_transaction(producer_id, epoch):
            self._check_verified(producer_id, verified)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {producer.epoch}, but the batch has epoch {epoch}"
            )
        if in_order:
            self._check_sequence(producer, producer_id, epoch, first_sequence)
        if producer is not None and producer.in_transaction and not transactional:
            raise InvalidTxnState(f"producer {producer_id} has an open transaction, but the batch is not transactional")
        return None

    def _check_verified(self, producer_id: int, verified: VerificationGuard | bool) -> None:
        if verified is not True and (verified is False or self.verifications.get(producer_id) is not verified):
            # Also if a marker arrived between the request to the coordinator and this batch (KIP-890).
            raise InvalidTxnState("the partition is not part of an open transaction of this producer")

    def _check_sequence(self, producer: Producer | None, producer_id: int, epoch: int, first_sequence: int) -> None:
        if producer is None or producer.epoch == NO_PRODUCER_EPOCH:
            # Retention may have removed the state, and without an epoch the only order to keep is that of the batches
            # that wait for the coordinator. With an epoch its sequence suffices: a late batch of an earlier transaction
            # waits as well, and must not block the batches of the current one.
            verification = self.verifications.get(producer_id)
            if verification is not None:
                verification.check(first_sequence, is_known=producer is not None and bool(producer.batches))
            return
        expected = producer.next_sequence if epoch == producer.epoch else 0
        if first_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {producer_id} sent sequence {first_sequence} of epoch {epoch}, but {expected} is expected"
            )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, *, transaction_version: int) -> None:
        """Refuse the marker of a fenced producer or coordinator."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        # Version 2 ends each transaction with the next epoch. A marker with the current epoch is a repetition, unless a
        # transaction is open; the highest possible epoch has no next one.
        repeated = epoch == producer.epoch and (not producer.in_transaction or epoch == EPOCH_MAX)
        if epoch < producer.epoch or (transaction_version >= 2 and epoch == producer.epoch and not repeated):
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {producer.epoch}, but the marker has epoch {epoch}"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"the marker of producer {producer_id} has coordinator epoch {coordinator_epoch}, "
                f"but {producer.coordinator_epoch} has been seen"
            )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        producer = self.producers.get(producer_id)
        return producer is not None and bool(producer.in_transaction) and producer.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, first_sequence: int, *, starts_at_zero: bool
    ) -> VerificationGuard | None:
        """Record a verification request for a producer; return None if its transaction is already open."""
        if self.has_open_transaction(producer_id, epoch):
            return None
        verification = self.verifications.get(producer_id)
        if verification is None:
            verification = VerificationGuard(epoch, first_sequence, starts_at_zero=starts_at_zero)
            if self.verifications is _NO_VERIFICATIONS:
                self.verifications = {}
            self.verifications[producer_id] = verification
        else:
            verification.add(epoch, first_sequence)
        return verification

    # Updates

    def batch_appended(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        now_ms: int,
        transactional: int = 0,
    ) -> None:
        """Apply an appended batch; `transactional` is that bit of its attributes."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch, now_ms)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.wrote(first_sequence, base_offset, last_offset, timestamp, now_ms)
        if transactional:
            self.verifications.pop(producer_id, None)
            if not producer.in_transaction:
                self._open(producer, base_offset)

    def _open(self, producer: Producer, first_offset: int) -> None:
        producer.in_transaction = TRANSACTIONAL
        producer.txn_first_offset = first_offset
        if self.open_transactions is _NO_TRANSACTIONS:
            self.open_transactions = {}
        self.open_transactions[first_offset] = producer.producer_id
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def marker_appended(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        now_ms: int,
        *,
        is_final: bool,
        transaction_version: int = 0,
    ) -> EndedTransaction | None:
        """Apply an appended marker; return the transaction that it ended, if there was one.

        Unless `is_final`, the transaction counts as unstable until the marker is below the high watermark.
        `transaction_version` is 0 if it is unknown: batches do not contain it.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch, now_ms)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
            producer.next_sequence = 0
        producer.set_marker(offset, timestamp, coordinator_epoch)
        producer.seen_ms = now_ms
        verification = self.verifications.get(producer_id)
        if verification is not None and (transaction_version < 2 or verification.epoch < epoch):
            # Version 2 ends a transaction with the next epoch. A producer that waits with that epoch learned of the end
            # before this marker arrived, and has begun the next transaction.
            del self.verifications[producer_id]
        if not producer.in_transaction:
            return None
        first_offset = producer.txn_first_offset
        producer.in_transaction, producer.txn_first_offset = 0, -1
        del self.open_transactions[first_offset]
        if is_final:
            self._find_first_unstable()
        else:
            if self._ended is _NO_TRANSACTIONS:
                self._ended = {}
            self._ended[first_offset] = offset
        return EndedTransaction(producer_id, first_offset, offset, next(iter(self.open_transactions), offset + 1))

    # Stability

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Drop the ended transactions whose marker is below the high watermark."""
        if self._ended:
            for first_offset, last_offset in list(self._ended.items()):
                if last_offset < high_watermark:
                    del self._ended[first_offset]
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        first_open = next(iter(self.open_transactions), None)
        candidates = [*self._ended] if first_open is None else [first_open, *self._ended]
        self.first_unstable_offset = min(candidates, default=None)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without a write for this long and without an open transaction; return how many."""
        expired = [
            each.producer_id for each in self if now_ms - each.seen_ms > expiration_ms and not each.in_transaction
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id, verification in list(self.verifications.items()):
            if verification.is_old:
                del self.verifications[producer_id]
            verification.is_old = True
        return len(expired)

    # Snapshots

    def encode(self) -> bytes:
        """Return a snapshot in the format of Kafka's `.snapshot` files."""
        entries = [entry for producer in self for entry in _entries(producer)]
        body = _COUNT.pack(len(entries)) + b"".join(entries)
        return _PREFIX.pack(SNAPSHOT_VERSION, crc32c(body)) + body

    def decode(self, content: bytes, now_ms: int) -> None:
        """Replace the state by a snapshot; raise Corruption if it is damaged or has an unknown version."""
        entries = snapshot_entries(content)
        self.clear()
        for entry in _ENTRY.iter_unpack(entries):
            self._take_entry(entry, now_ms)
        # Entries are ordered by producer, transactions by first offset.
        for producer in sorted(self, key=lambda each: each.txn_first_offset):
            if producer.txn_first_offset >= 0:
                self._open(producer, producer.txn_first_offset)

    def _take_entry(self, entry: tuple[int, ...], now_ms: int) -> None:
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = entry
        producer = self.producers.get(producer_id)
        if last_offset >= 0 and (producer is None or producer.last_offset != last_offset):
            first_sequence = (last_sequence - delta) & SEQUENCE_MASK if last_sequence >= 0 else last_sequence
            self.batch_appended(producer_id, epoch, first_sequence, last_offset - delta, last_offset, timestamp, now_ms)
        elif producer is None:
            self._add(producer_id, epoch, now_ms)
        producer = self.producers[producer_id]
        producer.txn_first_offset = txn_first_offset
        if timestamp != producer.last_timestamp or coordinator_epoch >= 0:
            # The offset of the marker is not stored: it is after the batch, unless a transaction is open.
            behind = -1 if txn_first_offset >= 0 and last_offset >= 0 else last_offset + 1
            producer.set_marker(behind, timestamp, coordinator_epoch)


def snapshot_entries(content: bytes) -> memoryview:
    """Return the encoded entries of a snapshot; raise Corruption if it is damaged or has an unknown version."""
    try:
        version, crc = _PREFIX.unpack_from(content)
        count = _COUNT.unpack_from(content, _PREFIX.size)[0]
    except StructError:
        raise Corruption(f"the producer snapshot has only {len(content)} bytes") from None
    body = memoryview(content)[_PREFIX.size :]
    if version != SNAPSHOT_VERSION or crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        raise Corruption("the producer snapshot fails its checks")
    return body[_COUNT.size :]


def _entries(producer: Producer) -> Iterator[bytes]:
    """Yield the entries of one producer, oldest batch first; Kafka uses the last one."""
    batches = [*producer.batches]
    for batch in batches[:-1]:
        yield _entry(producer, batch, batch.timestamp, -1, -1)
    newest = batches[-1] if batches else WrittenBatch(-1, -1, -1, -1, -1)
    if batches and newest.timestamp != producer.last_timestamp:
        # The last entry has the timestamp of the marker, so another one keeps that of the batch.
        yield _entry(producer, newest, newest.timestamp, -1, -1)
    yield _entry(producer, newest, producer.last_timestamp, producer.coordinator_epoch, producer.txn_first_offset)


def _entry(
    producer: Producer, batch: WrittenBatch, timestamp: int, coordinator_epoch: int, txn_first_offset: int
) -> bytes:
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.last_offset - batch.base_offset,
        timestamp,
        coordinator_epoch,
        txn_first_offset,
    )
