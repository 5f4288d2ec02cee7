"""A partition of an internal topic as the log of a shard. Calls go to replication/partition.py."""

from collections.abc import Callable, Iterator

from penstock.ports.clock import Clock
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.replication.waiting import WaitingProduce
from penstock.wire.batch import BatchHeader, iter_batches

READ_SIZE = 1024 * 1024


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

    def append(self, batch: bytes) -> int:
        # The log writes offset and epoch into the batch in place.
        records = memoryview(bytearray(batch))
        return self._partition.append(records, acks=ALL_REPLICAS, now_ms=self._clock.wall_ms()).last_offset + 1

    def when_committed(self, end: int, done: Callable[[int], None]) -> None:
        deadline = self._clock.monotonic() + self._commit_timeout_ms() / 1000
        self._partition.wait_durable(WaitingProduce(end, deadline, done))

    def batches(self) -> Iterator[memoryview]:
        log = self._partition.log
        offset, end = log.start_offset, log.end_offset
        while offset < end:
            found = log.read(offset, max_bytes=READ_SIZE, end=end, at_least_one=True)
            if found is None:
                return
            data = found.file.read(found.size, found.position)
            for batch in iter_batches(data):
                offset = BatchHeader.at(batch).next_offset
                yield batch
