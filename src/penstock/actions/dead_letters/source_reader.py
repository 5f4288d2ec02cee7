"""Single records by topic, partition and offset: the sources that dead-letter records of share groups point to."""

from typing import TYPE_CHECKING

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.errors import TIMED_OUT, ActionError
from penstock.actions.librdkafka import action_error
from penstock.actions.record_format import LineRecord
from penstock.actions.topic_reader import Isolation, line_record, open_consumer

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_DELETED = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
_PASSED = frozenset({"_PARTITION_EOF", "_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})


class SourceReader:
    """Reads records by offset; consecutive offsets are read without a new fetch for each."""

    def __init__(self, connection: Connection) -> None:
        self._consumer: Consumer = open_consumer(connection, Isolation.UNCOMMITTED)
        self._next: tuple[str, int, int] | None = None

    def read(self, topic: str, partition: int, offset: int) -> LineRecord | None:
        """Return the record, or None if it no longer exists."""
        from confluent_kafka import TopicPartition

        if self._next != (topic, partition, offset):
            if not self._exists(topic, partition, offset):
                return None
            self._consumer.assign([TopicPartition(topic, partition, offset)])
        self._next = None
        message = self._consumer.poll(REQUEST_TIMEOUT_S)
        if message is None:
            raise ActionError(f"Cannot read offset {offset} of {topic}-{partition}: no response.", code=TIMED_OUT)
        error = message.error()
        if error is not None:
            if error.name() in _PASSED:
                return None
            raise action_error(error, about=f"{topic}-{partition}")
        if message.offset() != offset:
            # Compacted away.
            return None
        self._next = (topic, partition, offset + 1)
        return line_record(message, topic)

    def _exists(self, topic: str, partition: int, offset: int) -> bool:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_S
            )
        except KafkaException as failure:
            error = failure.args[0]
            if error.name() in _DELETED:
                return False
            raise action_error(error, about=f"{topic}-{partition}") from None
        return bool(low <= offset < high)

    def close(self) -> None:
        self._consumer.close()
