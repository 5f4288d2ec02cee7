"""Producer of dead letters that waits until they are stored.

Creates a missing dead-letter topic, with a message size that leaves room for the headers. Raises `DeadLetterFailed`
if the cluster rejects a letter: its record must then not be committed.
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
    """A dead letter was rejected. Its record is not committed, and the worker stops."""


class LetterWriter:
    """One idempotent producer for all dead letters of a worker; thread-safe."""

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
                # Do not reject what the source topic accepted; the broker decides.
                "message.max.bytes": 1_000_000_000,
                **client,
            }
        )

    def write(self, record: Record, death: Death) -> str:
        """Send the letter; return its partition and offset once it is acknowledged."""
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
            raise DeadLetterFailed(
                f"{record.place} could not be written to the dead-letter topic {topic}: {error}"
            ) from error
        if outcome.error is not None:
            raise DeadLetterFailed(
                f"{record.place} could not be written to the dead-letter topic {topic}: {outcome.error.str()}"
            )
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
                # Try to send anyway: the topic may exist without permission to create it.
                log.warning("cannot create the dead-letter topic %s: %s", topic, error)
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
    """The delivery result of one letter."""

    def __init__(self) -> None:
        self.known = threading.Event()
        self.error: KafkaError | None = None
        self.partition: int | None = None
        self.offset: int | None = None

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        self.error = error
        self.partition, self.offset = message.partition(), message.offset()
        self.known.set()
