"""Sends dead letters back to where they came from, and remembers how far it came.

The position is what the group `penstock-dlq-replay` has committed. It moves only behind letters
that were acknowledged, and only in replays without a filter: a filter leaves letters out that a
position could not remember.
"""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from penstock.actions.connection import REQUEST_TIMEOUT_S, client_settings, explain
from penstock.cli.errors import CommandError
from penstock.actions.dead_letters.letter import Letter
from penstock.worker.progress import Progress

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

GROUP = "penstock-dlq-replay"


class Sender:
    """Produces letters as the records they were; counts what was acknowledged."""

    def __init__(self, bootstrap: str, *, to: str | None, keep_timestamps: bool, rate: float | None) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            client_settings(
                bootstrap,
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
        self._progress: dict[int, Progress] = {}
        self._problem = ""
        self.sent = 0
        self.acknowledged = 0

    def send(self, letter: Letter) -> None:
        """Hand a letter over; it is safe when `finish` has returned."""
        record, death = letter
        assert death is not None and record.partition is not None and record.offset is not None
        topic = self._to or death.topic
        optional: dict[str, Any] = {}
        partition_count = self._partition_count(topic)
        # Its old partition, so that the order of its key is kept; unless that is not there any more.
        if self._to is None and death.partition < partition_count:
            optional["partition"] = death.partition
        done = self._note(record.partition, record.offset)
        if self._keep_timestamps and death.timestamp_ms is not None:
            optional["timestamp"] = death.timestamp_ms

        def delivered(error: "KafkaError | None", message: object) -> None:
            if error is None:
                self.acknowledged += 1
                done()
            else:
                self._problem = self._problem or explain(error, about=topic)

        while True:
            try:
                self._producer.produce(
                    topic, record.value, record.key, headers=list(record.headers), on_delivery=delivered, **optional
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        self._producer.poll(0)
        if self._rate is not None:
            # Never ahead of the rate: wait until this many were due.
            while (ahead := self._began + self.sent / self._rate - time.monotonic()) > 0:
                self._producer.poll(min(ahead, 0.1))

    def pass_over(self, letter: Letter) -> None:
        """Note a record that is not sent, so that the position can move behind it."""
        assert letter.record.partition is not None and letter.record.offset is not None
        self._note(letter.record.partition, letter.record.offset)()

    def finish(self) -> None:
        """Wait until all that was handed over is acknowledged or given up."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S * 4
        while self._producer.flush(0.5) and time.monotonic() < deadline:
            pass

    def complain(self) -> None:
        """Raise if any letter was not taken."""
        if self.acknowledged < self.sent:
            problem = self._problem or "no answer in time; 'penstock doctor' looks for the reason."
            raise CommandError(f"{self.sent - self.acknowledged} of {self.sent} letters were not sent. {problem}")

    def positions(self) -> dict[int, int]:
        """Return for each partition the first offset that is not dealt with."""
        return {index: progress.position for index, progress in self._progress.items() if progress.position is not None}

    def _note(self, partition: int, offset: int) -> Callable[[], None]:
        progress = self._progress.setdefault(partition, Progress())
        progress.start(offset)
        return lambda: progress.finish(offset)

    def _partition_count(self, topic: str) -> int:
        if not self._partitions:
            # All topics, not this one: asking for one by its name would create it if it is gone.
            topics = self._producer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
            self._partitions = {name: len(found.partitions) for name, found in topics.items()}
        if topic not in self._partitions:
            raise CommandError(
                f"There is no topic {topic}: create it again, or send the letters elsewhere with --to TOPIC."
            )
        return self._partitions[topic]


def remembered(bootstrap: str, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """Return how far earlier replays came."""
    from penstock.actions.connection import open_admin
    from penstock.actions.groups import committed_offsets

    admin = open_admin(bootstrap)
    found = committed_offsets(admin, GROUP)
    return {index: found[topic, index] for index in partitions if (topic, index) in found}


def remember(bootstrap: str, topic: str, positions: dict[int, int]) -> None:
    """Commit how far this replay came."""
    from confluent_kafka import Consumer, TopicPartition

    if not positions:
        return
    consumer = Consumer(client_settings(bootstrap, **{"group.id": GROUP, "enable.auto.commit": False}))
    try:
        consumer.commit(
            offsets=[TopicPartition(topic, index, offset) for index, offset in positions.items()], asynchronous=False
        )
    finally:
        consumer.close()
