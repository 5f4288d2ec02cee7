"""Records to a topic, through librdkafka's producer."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.errors import TIMED_OUT, ActionError
from penstock.actions.librdkafka import action_error, client_config
from penstock.actions.record_format import LineRecord

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

ERRORS_KEPT_MAX: Final = 3


class TopicWriter:
    """Produces records and counts failures.

    Leaving the context waits until all records are acknowledged or failed, also after an exception: an invalid
    record must not lose the valid ones before it.
    """

    def __init__(self, connection: Connection, topic: str, *, codec: str, acks: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            client_config(
                connection,
                **{
                    "compression.type": codec,
                    "acks": acks,
                    # Without idempotence a retry could write a record twice or out of order.
                    "enable.idempotence": acks == "all",
                    "linger.ms": 5,
                    "queue.buffering.max.messages": 200_000,
                    "delivery.report.only.error": True,
                    "message.timeout.ms": int(REQUEST_TIMEOUT_S * 2 * 1000),
                },
            )
        )
        self._topic = topic
        self._errors: dict[str, ActionError] = {}
        self.sent = 0
        self.failed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def write(self, record: LineRecord) -> None:
        """Queue a record; wait while the queue is full."""
        optional: dict[str, Any] = {}
        if record.partition is not None:
            optional["partition"] = record.partition
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers) or None,
                    on_delivery=self._delivered,
                    **optional,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        if self.sent % 1000 == 0:
            self._producer.poll(0)

    def _delivered(self, error: "KafkaError | None", message: object) -> None:
        if error is not None:
            self.failed += 1
            if len(self._errors) < ERRORS_KEPT_MAX:
                problem = action_error(error, about=self._topic)
                self._errors.setdefault(str(problem), problem)

    def finish(self) -> None:
        """Wait until every record is acknowledged or failed; raise if any failed."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S * 4
        while (left := self._producer.flush(1.0)) and time.monotonic() < deadline:
            pass
        self.failed += left
        if self.failed:
            reasons = " ".join(self._errors) or "The request timed out."
            code = next((error.code for error in self._errors.values()), TIMED_OUT)
            raise ActionError(
                f"{self.failed} of {self.sent} records were not written. {reasons}", code=code, about=self._topic
            )
