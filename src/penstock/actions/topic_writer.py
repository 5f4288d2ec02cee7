"""Records to a topic, through librdkafka's producer."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.errors import TIMED_OUT, ActionError
from penstock.actions.librdkafka import action_error, client_config
from penstock.actions.record_format import LineRecord
from penstock.actions.write_failures import disk_problem, find_cause

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

ERRORS_KEPT_MAX: Final = 3
STALL_S: Final = 3.0
CLIENT_LIMIT: Final = "CLIENT_LIMIT"


class TopicWriter:
    """Produces records and counts failures.

    Leaving the context waits until all records are acknowledged or failed, also after an exception: an invalid
    record must not lose the valid ones before it.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        codec: str,
        acks: str,
        on_stall: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`on_stall` is called with the reason if records wait for a broker that cannot write."""
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
                    # The topic decides how large a record may be.
                    "message.max.bytes": 1_000_000_000,
                },
            )
        )
        self._connection = connection
        self._topic = topic
        self._on_stall = on_stall
        self._keyless_failed = False
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
        from confluent_kafka import KafkaException

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
            except KafkaException as error:
                raise self._rejected(record, error.args[0]) from None
        self.sent += 1
        if self.sent % 1000 == 0:
            self._producer.poll(0)

    def _rejected(self, record: LineRecord, error: "KafkaError") -> ActionError:
        """Return the error of a record that the client library did not accept."""
        if error.name() != "MSG_SIZE_TOO_LARGE":
            return action_error(error, about=self._topic)
        size = len(record.value or b"") + len(record.key or b"")
        return ActionError(
            f"{self._topic}: a record of {size} bytes exceeds the client property message.max.bytes. Raise or omit it.",
            code=CLIENT_LIMIT,
        )

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self.failed += 1
            self._keyless_failed = self._keyless_failed or message.key() is None
            if len(self._errors) < ERRORS_KEPT_MAX:
                problem = action_error(error, about=self._topic)
                self._errors.setdefault(str(problem), problem)

    def finish(self) -> None:
        """Wait until every record is acknowledged or failed; raise if any failed."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S * 4
        stall_at = time.monotonic() + STALL_S
        while (left := self._producer.flush(1.0)) and time.monotonic() < deadline:
            if time.monotonic() >= stall_at:
                stall_at = deadline
                if problem := disk_problem(self._connection):
                    self._on_stall(problem)
        self.failed += left
        if self.failed:
            code = next((error.code for error in self._errors.values()), TIMED_OUT)
            cause = find_cause(self._connection, self._topic, code, keyless=self._keyless_failed)
            if cause is not None:
                text = f"{self.failed} of {self.sent} records were not written. {cause.text}"
                raise ActionError(text, code=cause.code, about=self._topic)
            reasons = " ".join(self._errors) or "The request timed out."
            text = f"{self.failed} of {self.sent} records were not written. {reasons}"
            raise ActionError(text, code=code, about=self._topic)
