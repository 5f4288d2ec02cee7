"""Sending dead letters back to their topics, and remembering the position.

The position is what the group `penstock-dlq-replay` has committed. It moves only past letters that were acknowledged,
and only in replays without a filter: one offset cannot record which letters a filter left out.
"""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.dead_letters.dead_letter import DeadLetter
from penstock.actions.dead_letters.share_letter import is_pointer
from penstock.actions.dead_letters.source_reader import SourceReader
from penstock.actions.errors import TIMED_OUT, ActionError
from penstock.actions.groups import committed_offsets
from penstock.actions.librdkafka import action_error, client_config, open_admin
from penstock.actions.record_format import LineRecord
from penstock.worker.dead_letter import Death
from penstock.worker.progress import OffsetTracker

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

GROUP = "penstock-dlq-replay"


class ReplaySender:
    """Produces dead letters as their original records and counts acknowledgements."""

    def __init__(
        self, connection: Connection, *, to: str | None = None, keep_timestamps: bool = False, rate: float | None = None
    ) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            client_config(
                connection,
                **{
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "message.max.bytes": 1_000_000_000,
                    "message.timeout.ms": int(REQUEST_TIMEOUT_S * 2 * 1000),
                },
            )
        )
        self._to = to
        self._keep_timestamps = keep_timestamps
        self._rate = rate
        self._began = time.monotonic()
        self._partitions: dict[str, int] = {}
        self._progress: dict[int, OffsetTracker] = {}
        self._error: ActionError | None = None
        self.sent = 0
        self.acknowledged = 0
        self.missing = 0
        """Letters that point to a record that no longer exists."""
        self._connection = connection
        self._sources: SourceReader | None = None

    def send(self, letter: DeadLetter) -> None:
        """Queue a letter; `finish` waits for its acknowledgement. A letter that points to its source sends that."""
        record, death = letter
        assert death is not None and record.partition is not None and record.offset is not None
        content = self._source(death) if is_pointer(record, death) else record
        if content is None:
            self.missing += 1
            self.skip(letter)
            return
        topic = self._to or death.topic
        optional: dict[str, Any] = {}
        partition_count = self._partition_count(topic)
        # The original partition keeps the order of the key, if it still exists.
        if self._to is None and death.partition < partition_count:
            optional["partition"] = death.partition
        done = self._track(record.partition, record.offset)
        timestamp_ms = content.timestamp_ms if content is not record else death.timestamp_ms
        if self._keep_timestamps and timestamp_ms is not None:
            optional["timestamp"] = timestamp_ms

        def delivered(error: "KafkaError | None", message: object) -> None:
            if error is None:
                self.acknowledged += 1
                done()
            else:
                self._error = self._error or action_error(error, about=topic)

        while True:
            try:
                self._producer.produce(
                    topic, content.value, content.key, headers=list(content.headers), on_delivery=delivered, **optional
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        self._producer.poll(0)
        if self._rate is not None:
            while (ahead := self._began + self.sent / self._rate - time.monotonic()) > 0:
                self._producer.poll(min(ahead, 0.1))

    def skip(self, letter: DeadLetter) -> None:
        """Let the position move past a record that is not sent."""
        assert letter.record.partition is not None and letter.record.offset is not None
        self._track(letter.record.partition, letter.record.offset)()

    def finish(self) -> None:
        """Wait until every letter is acknowledged or failed."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S * 4
        while self._producer.flush(0.5) and time.monotonic() < deadline:
            pass
        if self._sources is not None:
            self._sources.close()
            self._sources = None

    def raise_if_failed(self) -> None:
        """Raise if a letter was not acknowledged."""
        if self.acknowledged < self.sent:
            error = self._error or ActionError("The request timed out.", code=TIMED_OUT)
            failed = self.sent - self.acknowledged
            raise ActionError(f"{failed} of {self.sent} dead letters were not sent. {error}", code=error.code)

    def positions(self) -> dict[int, int]:
        """Return for each partition the first offset that is neither acknowledged nor skipped."""
        return {index: progress.position for index, progress in self._progress.items() if progress.position is not None}

    def _source(self, death: Death) -> LineRecord | None:
        if self._sources is None:
            self._sources = SourceReader(self._connection)
        return self._sources.read(death.topic, death.partition, death.offset)

    def _track(self, partition: int, offset: int) -> Callable[[], None]:
        progress = self._progress.setdefault(partition, OffsetTracker())
        progress.start(offset)
        return lambda: progress.finish(offset)

    def _partition_count(self, topic: str) -> int:
        if not self._partitions:
            # Requesting one topic by name could create it.
            topics = self._producer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
            self._partitions = {name: len(found.partitions) for name, found in topics.items()}
        if topic not in self._partitions:
            raise ActionError(f"Cannot send to topic '{topic}': it does not exist.", code="MISSING_REPLAY_TARGET")
        return self._partitions[topic]


def replay_position(
    connection: Connection, topic: str, partitions: Collection[int], *, group: str = GROUP
) -> dict[int, int]:
    """Return the offsets at which earlier replays ended."""
    found = committed_offsets(open_admin(connection), group)
    return {index: found[topic, index] for index in partitions if (topic, index) in found}


def commit_replay_position(
    connection: Connection, topic: str, positions: dict[int, int], *, group: str = GROUP
) -> None:
    """Commit the offsets at which this replay ended."""
    from confluent_kafka import Consumer, TopicPartition

    if not positions:
        return
    consumer = Consumer(client_config(connection, **{"group.id": group, "enable.auto.commit": False}))
    try:
        consumer.commit(
            offsets=[TopicPartition(topic, index, offset) for index, offset in positions.items()], asynchronous=False
        )
    finally:
        consumer.close()
