"""Sends dead letters and waits until they are safe.

Creates a missing dead-letter topic, with room for the headers on top of the largest record that
the source takes. Raises `DeadLetterFailed` when the cluster does not take a letter: the record
must then not be committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.worker import dead_letter
from penstock.worker.dead_letter import Death
from penstock.worker.options import DeadLetters
from penstock.worker.record import Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

log = logging.getLogger("penstock.worker")

ADMIN_TIMEOUT_S = 30.0
DELIVERY_TIMEOUT_S = 120.0
HEADERS_SIZE_MAX = 64 * 1024


class DeadLetterFailed(Exception):
    """A dead letter was not taken. The record it holds is not committed; the worker stops."""


class LetterWriter:
    """One idempotent producer for all dead letters of a worker; safe to use from its threads."""

    def __init__(self, client: Mapping[str, Any], dead_letters: DeadLetters) -> None:
        from confluent_kafka import Producer

        self._client = dict(client)
        self._dead_letters = dead_letters
        self._ready: set[str] = set()
        self._lock = threading.Lock()
        self._producer = Producer(
            {
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
                # What the source topic took must not be refused here; the broker has the last word.
                "message.max.bytes": 1_000_000_000,
                **client,
            }
        )

    def write(self, record: Record, death: Death) -> str:
        """Send the letter; return its place once the cluster has it."""
        topic = self._dead_letters.topic_for(record.topic)
        self._prepare(topic, source=record.topic)
        outcome = _Outcome()
        try:
            self._producer.produce(
                topic, record.value, record.key, headers=list(dead_letter.write(record.headers, death)),
                on_delivery=outcome.delivered,
            )  # fmt: skip
            while not outcome.known.is_set():
                self._producer.poll(0.1)
        except Exception as error:
            raise DeadLetterFailed(f"{record.place} could not be dead-lettered to {topic}: {error}") from error
        if outcome.error is not None:
            raise DeadLetterFailed(f"{record.place} could not be dead-lettered to {topic}: {outcome.error.str()}")
        return f"{topic}-{outcome.partition}@{outcome.offset}"

    def close(self) -> None:
        self._producer.flush(1.0)

    def _prepare(self, topic: str, *, source: str) -> None:
        with self._lock:
            if topic in self._ready or not self._dead_letters.create:
                return
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient

            admin = AdminClient(self._client)
            try:
                self._create(admin, topic, source)
            except (KafkaException, TimeoutError) as error:
                # The letter itself decides: the topic may be there and creating it just not allowed.
                log.warning("%s: the topic could not be created (%s)", topic, error)
            self._ready.add(topic)

    def _create(self, admin: AdminClient, topic: str, source: str) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        if topic in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics:
            return
        size_max = _size_max(admin, source) + HEADERS_SIZE_MAX
        settings = {"max.message.bytes": str(size_max), **self._dead_letters.settings}
        try:
            admin.create_topics([NewTopic(topic, -1, -1, config=settings)])[topic].result(ADMIN_TIMEOUT_S)
            log.info("created the dead-letter topic %s", topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _size_max(admin: AdminClient, topic: str) -> int:
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return int(admin.describe_configs([resource])[resource].result(ADMIN_TIMEOUT_S)["max.message.bytes"].value)


class _Outcome:
    """What became of one letter."""

    def __init__(self) -> None:
        self.known = threading.Event()
        self.error: KafkaError | None = None
        self.partition: int | None = None
        self.offset: int | None = None

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        self.error = error
        self.partition, self.offset = message.partition(), message.offset()
        self.known.set()
