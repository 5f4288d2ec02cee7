"""Producers and consumers of a load test: threads of this process, each with its own librdkafka client.

A record begins with the id of the test and the time at which it was handed to the producer, so consumers can measure
its whole way. They read their share of the partitions without a group, from the end of the log at the start.
"""

import os
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.actions.bench.measurement import Meter, Totals, total
from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.librdkafka import action_error, client_config

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_HEAD: Final = struct.Struct(">QQ")
RECORD_SIZE_MIN: Final = _HEAD.size
# A queue of megabytes would measure the queue. This one keeps several requests in flight.
QUEUE_KIB: Final = 4096
FLUSH_S_MAX: Final = 30.0
IDLE_S_MAX: Final = 5.0
POLL_EVERY: Final = 200
BATCH_COUNT_MAX: Final = 1000
LED_S_MAX: Final = 30.0
_NO_LEADER: Final = frozenset({"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a load test."""

    topic: str
    is_new_topic: bool
    producers: int
    consumers: int
    record_size: int
    acks: str
    codec: str
    duration_s: float
    records_per_s: float | None
    """The rate of all producers together; None means as fast as possible."""


class LoadTest:
    """Runs a plan. `start`, then wait until `is_done`, then `close`; read the totals at any time."""

    def __init__(self, connection: Connection, plan: Plan) -> None:
        self._plan = plan
        self._connection = connection
        self._id = int.from_bytes(os.urandom(8))
        self._stop = threading.Event()
        self._produced = [Meter() for _ in range(plan.producers)]
        self._consumed = [Meter() for _ in range(plan.consumers)]
        self._producing: list[threading.Thread] = []
        self._consuming: list[threading.Thread] = []
        self.started_at = 0.0

    def start(self) -> None:
        """Start the consumers, then the producers."""
        ends = self._log_ends() if self._consumed else {}
        self.started_at = time.monotonic()
        for index, meter in enumerate(self._consumed):
            own = {partition: end for partition, end in ends.items() if partition % len(self._consumed) == index}
            self._consuming.append(self._thread(self._consume, meter, own))
        for meter in self._produced:
            self._producing.append(self._thread(self._produce, meter))

    def stop(self) -> None:
        """End the test early. Records on their way are still counted."""
        self._stop.set()

    @property
    def is_done(self) -> bool:
        return not any(thread.is_alive() for thread in (*self._producing, *self._consuming))

    def close(self) -> None:
        self.stop()
        for thread in (*self._producing, *self._consuming):
            thread.join()

    @property
    def has_consumers(self) -> bool:
        return bool(self._consumed)

    @property
    def produced(self) -> Totals:
        return total(self._produced, started_at=self.started_at)

    @property
    def consumed(self) -> Totals:
        return total(self._consumed, started_at=self.started_at)

    @property
    def error(self) -> str:
        """The first error of any worker."""
        return next((meter.error for meter in (*self._produced, *self._consumed) if meter.error), "")

    def _thread(self, run: Any, meter: Meter, *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                run(meter, *arguments)
            except Exception as error:
                meter.fail(str(error))

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    # -- producers -------------------------------------------------------------------------------

    def _produce(self, meter: Meter) -> None:
        from confluent_kafka import Producer

        plan = self._plan
        producer = Producer(
            client_config(
                self._connection,
                **{
                    "acks": plan.acks,
                    "compression.type": plan.codec,
                    "linger.ms": 5,
                    "queue.buffering.max.kbytes": max(QUEUE_KIB, 2 * plan.record_size // 1024),
                    "message.max.bytes": max(1_000_000, plan.record_size + 4096),
                },
            )
        )
        # Random, because a codec would make nothing of zeros.
        padding = os.urandom(plan.record_size - RECORD_SIZE_MIN)
        rate = None if plan.records_per_s is None else plan.records_per_s / plan.producers

        def delivered(error: "KafkaError | None", message: "Message") -> None:
            if error is not None:
                meter.fail(error.str())
            else:
                meter.count(plan.record_size, round((message.latency() or 0.0) * 1e6), time.monotonic())

        sent = 0
        until = self.started_at + plan.duration_s
        while (now := time.monotonic()) < until and not self._stop.is_set():
            if rate is not None and sent >= (now - self.started_at) * rate:
                producer.poll(min(1 / rate, 0.01))
                continue
            try:
                value = _HEAD.pack(self._id, time.monotonic_ns()) + padding
                producer.produce(plan.topic, value, on_delivery=delivered)
                sent += 1
            except BufferError:
                producer.poll(0.01)
            if sent % POLL_EVERY == 0:
                producer.poll(0)
        left = producer.flush(FLUSH_S_MAX)
        if left:
            meter.fail(f"{left} records were not acknowledged within {FLUSH_S_MAX:.0f} s")

    # -- consumers -------------------------------------------------------------------------------

    def _consume(self, meter: Meter, starts: Mapping[int, int]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        if not starts:
            return
        consumer = Consumer(
            client_config(
                self._connection,
                **{"group.id": "penstock-bench", "enable.auto.commit": False, "auto.offset.reset": "error"},
            )
        )
        try:
            consumer.assign([TopicPartition(self._plan.topic, index, start) for index, start in starts.items()])
            while not self._has_read_all():
                # The poll waits for one record. A wait for a batch would count as latency.
                first = consumer.poll(0.1)
                if first is not None:
                    self._count(meter, [first, *consumer.consume(BATCH_COUNT_MAX, timeout=0)])
        finally:
            consumer.close()

    def _count(self, meter: Meter, messages: Sequence["Message"]) -> None:
        now_ns, now = time.monotonic_ns(), time.monotonic()
        for message in messages:
            error, value = message.error(), message.value()
            if error is not None:
                meter.fail(error.str())
            elif isinstance(value, bytes) and len(value) >= RECORD_SIZE_MIN:
                test_id, sent_ns = _HEAD.unpack_from(value)
                if test_id == self._id:
                    meter.count(len(value), (now_ns - sent_ns) // 1000, now)

    def _has_read_all(self) -> bool:
        """Return whether all acknowledged records have arrived, or none has arrived for a while after the end."""
        if any(thread.is_alive() for thread in self._producing) or len(self._producing) < self._plan.producers:
            return False
        acknowledged = sum(meter.records for meter in self._produced)
        if sum(meter.records for meter in self._consumed) >= acknowledged:
            return True
        last = max(meter.last_at for meter in (*self._produced, *self._consumed))
        return time.monotonic() - max(last, self.started_at) > IDLE_S_MAX

    def _log_ends(self) -> dict[int, int]:
        """Return the end of each partition at the start of the test."""
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer(client_config(self._connection, **{"group.id": "penstock-bench"}))
        deadline = time.monotonic() + LED_S_MAX
        try:
            while True:
                try:
                    return self._read_ends(consumer)
                except KafkaException as error:
                    problem = action_error(error.args[0], about=self._plan.topic)
                if problem.code not in self._awaited_errors or time.monotonic() > deadline:
                    raise problem
                time.sleep(0.1)
        finally:
            consumer.close()

    @property
    def _awaited_errors(self) -> frozenset[str]:
        """The errors of a topic whose creation or election has not reached every broker."""
        if self._plan.is_new_topic:
            return _NO_LEADER | {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
        return _NO_LEADER

    def _read_ends(self, consumer: "Consumer") -> dict[int, int]:
        from confluent_kafka import KafkaException, TopicPartition

        found = consumer.list_topics(self._plan.topic, timeout=REQUEST_TIMEOUT_S).topics[self._plan.topic]
        if found.error is not None:
            raise KafkaException(found.error)
        ends = {}
        for index in found.partitions:
            partition = TopicPartition(self._plan.topic, index)
            _, ends[index] = consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT_S)
        return ends
