"""What a partition remembers of its idempotent producers: epoch, sequence, last five batches.

`check` decides on a batch before it is written and changes nothing; `published` notes it
after the write succeeded. The same `published` serves replay. Snapshots have Kafka's format
(version 1); a producer's older batches stand before its newest as entries of the same id,
which Kafka's reader takes as earlier states of it. Refuses: InvalidProducerEpoch,
OutOfOrderSequence.
"""

from collections import deque
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.model.errors import Corruption, InvalidProducerEpoch, OutOfOrderSequence

BATCHES_KEPT: Final = 5
SEQUENCE_MASK: Final = 0x7FFFFFFF
NO_PRODUCER_EPOCH: Final = -1
SNAPSHOT_VERSION: Final = 1
_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class WrittenBatch(NamedTuple):
    """One of the last batches of a producer, enough to answer for it again."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer id in one partition."""

    __slots__ = ("batches", "epoch", "next_sequence", "producer_id", "seen_ms")

    def __init__(self, producer_id: int, epoch: int, seen_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_KEPT)
        # By our own clock: records may carry any timestamp, and a backfill must not lose its state.
        self.seen_ms = seen_ms

    @property
    def last(self) -> WrittenBatch:
        return self.batches[-1]


class ProducerState:
    """All producers of one partition, by id."""

    __slots__ = ("producers",)

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self.producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self.producers.values())

    def clear(self) -> None:
        self.producers.clear()

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        """Return the earlier write of this very batch, or None if it comes next. Refuses everything else."""
        producer = self.producers.get(producer_id)
        if producer is None:
            # Retention may have taken the state along: any first sequence is taken.
            return None
        if epoch != producer.epoch:
            _check_new_epoch(producer, epoch, first_sequence)
            return None
        if first_sequence == producer.next_sequence:
            return None
        for batch in producer.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        if epoch == NO_PRODUCER_EPOCH:
            # Without an epoch there is no order to keep; only the very same batch is known again.
            return None
        raise OutOfOrderSequence(
            f"producer {producer_id} sent sequence {first_sequence}, and {producer.next_sequence} comes next"
        )

    def published(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        now_ms: int,
    ) -> None:
        """Note a batch that is in the log now."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(producer_id, epoch, now_ms)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        last_sequence = (first_sequence + last_offset - base_offset) & SEQUENCE_MASK
        producer.batches.append(WrittenBatch(first_sequence, last_sequence, base_offset, last_offset, timestamp))
        producer.next_sequence = (last_sequence + 1) & SEQUENCE_MASK
        producer.seen_ms = now_ms

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have written nothing for so long; return how many."""
        expired = [each.producer_id for each in self if now_ms - each.seen_ms > expiration_ms]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def encode(self) -> bytes:
        """Return a snapshot as Kafka's `.snapshot` files hold it."""
        entries = [
            _ENTRY.pack(
                producer.producer_id,
                producer.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset - batch.base_offset,
                batch.timestamp,
                -1,
                -1,
            )
            for producer in self
            for batch in producer.batches
        ]
        body = _COUNT.pack(len(entries)) + b"".join(entries)
        return _PREFIX.pack(SNAPSHOT_VERSION, crc32c(body)) + body

    def decode(self, content: bytes, now_ms: int) -> None:
        """Replace everything by a snapshot; Corruption when it is damaged or unknown."""
        try:
            version, crc = _PREFIX.unpack_from(content)
            count = _COUNT.unpack_from(content, _PREFIX.size)[0]
        except StructError:
            raise Corruption(f"a producer snapshot of {len(content)} bytes") from None
        body = memoryview(content)[_PREFIX.size :]
        if version != SNAPSHOT_VERSION or crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
            raise Corruption("the producer snapshot fails its checks")
        self.producers.clear()
        for producer_id, epoch, last_sequence, last_offset, delta, timestamp, _, _ in _ENTRY.iter_unpack(
            body[_COUNT.size :]
        ):
            if last_offset >= 0:
                first_sequence = (last_sequence - delta) & SEQUENCE_MASK
                self.published(producer_id, epoch, first_sequence, last_offset - delta, last_offset, timestamp, now_ms)


def _check_new_epoch(producer: Producer, epoch: int, first_sequence: int) -> None:
    if epoch < producer.epoch:
        raise InvalidProducerEpoch(
            f"producer {producer.producer_id} wrote with epoch {epoch}, and epoch {producer.epoch} has been seen"
        )
    if first_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
        raise OutOfOrderSequence(
            f"producer {producer.producer_id} starts epoch {epoch} at sequence {first_sequence} instead of 0"
        )
