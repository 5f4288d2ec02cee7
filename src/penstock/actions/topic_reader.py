"""Records of a topic from a position on. Joins no group and commits nothing: partitions are assigned directly."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.errors import ActionError, unknown_partition
from penstock.actions.librdkafka import action_error, client_config
from penstock.actions.positions import AtOffset, AtTime, Earliest, Last, Latest, Position
from penstock.actions.record_format import Headers, LineRecord

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

POLL_S: Final = 0.2
BATCH_COUNT_MAX: Final = 500


class Isolation(StrEnum):
    """Whether records of open and aborted transactions are returned."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


def open_consumer(connection: Connection, isolation: Isolation) -> "Consumer":
    """Open a consumer for a TopicReader. The caller closes it."""
    from confluent_kafka import Consumer

    return Consumer(
        client_config(
            connection,
            **{
                # librdkafka requires a group id, but nothing joins or commits.
                "group.id": "penstock-cli",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": isolation.value,
                "fetch.wait.max.ms": 500,
            },
        )
    )


class TopicReader:
    """Reads partitions of a topic up to their end at the start, or without end if `follow` is set."""

    def __init__(
        self, consumer: "Consumer", topic: str, partitions: Sequence[int] | None, position: Position, *, follow: bool
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._follow = follow
        self._unfinished: set[int] = set()
        self.partitions = self._resolve_partitions(partitions)
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        for index in self.partitions:
            self._starts[index], self._ends[index] = self._range(index, position)

    def start_at(self, offsets: Mapping[int, int]) -> None:
        """Start partitions no earlier than these offsets."""
        for index, offset in offsets.items():
            self._starts[index] = max(self._starts[index], min(offset, self._ends[index]))

    def batches(self, count: int | None) -> Iterator[list[LineRecord]]:
        """Yield records as they arrive, until the count or the ends are reached."""
        from confluent_kafka import TopicPartition

        self._unfinished = {
            index for index in self.partitions if self._follow or self._starts[index] < self._ends[index]
        }
        if not self._unfinished:
            return
        self._consumer.assign(
            [TopicPartition(self._topic, index, self._starts[index]) for index in sorted(self._unfinished)]
        )
        left = count
        while self._unfinished and (left is None or left > 0):
            first = self._consumer.poll(POLL_S)
            if first is None:
                continue
            # The poll waits; this call takes what else has arrived without waiting.
            more = self._consumer.consume(BATCH_COUNT_MAX if left is None else min(left, BATCH_COUNT_MAX), timeout=0)
            records = [record for message in (first, *more) if (record := self._accept(message)) is not None]
            if left is not None:
                records = records[:left]
                left -= len(records)
            yield records

    def _accept(self, message: "Message") -> LineRecord | None:
        index = message.partition()
        error = message.error()
        if error is not None:
            if error.name() != "_PARTITION_EOF":
                raise action_error(error, about=f"{self._topic}-{index}")
            if not self._follow:
                self._unfinished.discard(int(index or 0))
            return None
        assert index is not None, "a message without an error has a partition"
        offset = message.offset()
        assert offset is not None, "a message without an error has an offset"
        if not self._follow:
            if offset >= self._ends[index] - 1:
                self._unfinished.discard(index)
            if offset >= self._ends[index]:
                return None
        return line_record(message, self._topic)

    def _resolve_partitions(self, wanted: Sequence[int] | None) -> list[int]:
        found = self._consumer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S).topics[self._topic]
        if found.error is not None:
            raise action_error(found.error, about=self._topic)
        for index in wanted or []:
            if index not in found.partitions:
                raise unknown_partition(self._topic, index, len(found.partitions))
        return sorted(set(wanted)) if wanted else sorted(found.partitions)

    def _range(self, index: int, position: Position) -> tuple[int, int]:
        """Return the offset to start at and the current end of the log."""
        from confluent_kafka import TopicPartition

        partition = TopicPartition(self._topic, index)
        low, high = self._consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT_S)
        match position:
            case Earliest():
                return low, high
            case Latest():
                return high, high
            case Last(offset_count):
                return max(low, high - offset_count), high
            case AtOffset(offset):
                if not low <= offset <= high:
                    raise ActionError(
                        f"Cannot read {self._topic}-{index} from offset {offset}: the log holds offsets {low} to "
                        f"{high - 1}. Use one of these, or earliest."
                    )
                return offset, high
            case AtTime(timestamp_ms):
                wanted = TopicPartition(self._topic, index, timestamp_ms)
                found = self._consumer.offsets_for_times([wanted], timeout=REQUEST_TIMEOUT_S)[0]
                if found.error is not None:
                    raise action_error(found.error, about=f"{self._topic}-{index}")
                return (found.offset if found.offset >= 0 else high), high


def line_record(message: "Message", topic: str) -> LineRecord:
    """Convert a message without an error."""
    timestamp_type, timestamp = message.timestamp()
    return LineRecord(
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=_headers(message.headers()),
        timestamp_ms=None if timestamp < 0 else timestamp,
        partition=message.partition(),
        offset=message.offset(),
        topic=topic,
        # librdkafka counts from 1; 0 means that there is no timestamp.
        timestamp_type=timestamp_type - 1 if timestamp_type else None,
    )


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _headers(headers: Any) -> Headers:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, _bytes(value)) for name, value in pairs]
