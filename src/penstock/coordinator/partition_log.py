"""A partition of an internal topic as the log of a shard. Calls go to replication/partition.py."""

from collections.abc import Callable, Iterator

from penstock.coordinator.decision import InTransaction, TransactionEnd
from penstock.model.errors import StorageError
from penstock.ports.clock import Clock
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.replication.waiting import WaitingProduce
from penstock.storage.verification_guard import VerificationGuard
from penstock.wire.batch import BatchHeader, iter_batches

READ_SIZE = 1024 * 1024
_NO_SEQUENCE = -1


class PartitionLog:
    def __init__(self, partition: Partition, clock: Clock, commit_timeout_ms: Callable[[], int]) -> None:
        self._partition = partition
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms

    @property
    def end_offset(self) -> int:
        return self._partition.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    def append(self, batch: bytes | bytearray, transaction: InTransaction | None = None) -> int:
        # The log writes offset and epoch into the batch in place. Trusted: this node made the batch, and
        # in a transaction its sequence is not the producer's, which sends offsets out of that order.
        appended = self._partition.append(
            memoryview(batch if type(batch) is bytearray else bytearray(batch)),
            acks=ALL_REPLICAS,
            now_ms=self._clock.wall_ms(),
            trusted=True,
            transaction_verified=False if transaction is None else transaction.verification,
        )
        return appended.last_offset + 1

    def append_marker(self, end: TransactionEnd) -> int:
        appended = self._partition.append_marker(
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            commit=end.is_commit,
            coordinator_epoch=end.coordinator_epoch,
            now_ms=self._clock.wall_ms(),
            transaction_version=end.transaction_version,
        )
        return appended.last_offset + 1

    def begin_verification(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        producers = self._partition.log.producer_state
        return producers.begin_verification(producer_id, producer_epoch, _NO_SEQUENCE, starts_at_zero=False)

    def when_committed(self, end: int, done: Callable[[int], None]) -> None:
        deadline = self._clock.monotonic() + self._commit_timeout_ms() / 1000
        self._partition.wait_durable(WaitingProduce(end, deadline, done))

    def batches(self) -> Iterator[memoryview]:
        log = self._partition.log
        if log.damage is not None:
            # A damaged log may have lost its end, so the readable part may be incomplete.
            raise StorageError(log.damage)
        offset, end = log.start_offset, log.end_offset
        while offset < end:
            found = log.read(offset, max_bytes=READ_SIZE, end=end, at_least_one=True)
            if found is None:
                return
            data = found.file.read(found.size, found.position)
            for batch in iter_batches(data):
                offset = BatchHeader.at(batch).next_offset
                yield batch
