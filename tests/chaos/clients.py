"""Real clients (librdkafka) that record every send and every read in a history."""

import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock_sim.history import FAIL, INFO, OK, Batch, History, PartitionId, Poll, Send, View

PAUSE_S = 0.004
IN_FLIGHT_MAX = 500
# Errors after which the record is certainly not in the log.
_CERTAIN = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._QUEUE_FULL, KafkaError._PURGE_QUEUE)


class Writer(threading.Thread):
    """An idempotent producer that writes numbered values to every partition in turn."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )
        self._topic = topic
        self._partitions = partitions
        self._history = history
        self._stopped = threading.Event()
        self._waiting = 0
        self.acknowledged: list[tuple[float, int, float]] = []
        """Time, partition and latency of each acknowledgement."""

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            if self._waiting < IN_FLIGHT_MAX:
                self._send(number)
                number += 1
            self._producer.poll(0)
            time.sleep(PAUSE_S)
        self._producer.flush(150)

    def finish(self) -> None:
        self._stopped.set()
        self.join(180)
        assert not self.is_alive(), f"{self.name} did not finish"

    def _send(self, number: int) -> None:
        partition = number % self._partitions
        value = f"{self.name}-{number}".encode()
        send = Send(
            client=f"{self.name}/{partition}",
            partition=PartitionId(self._topic, "", partition),
            values=(value,),
            acks=-1,
            began=time.monotonic(),
            idempotent=True,
        )

        def done(error: KafkaError | None, message: Message) -> None:
            self._waiting -= 1
            send.ended = time.monotonic()
            if error is None:
                offset = message.offset()
                send.outcome, send.offset = OK, -1 if offset is None else offset
                self.acknowledged.append((send.ended, partition, send.ended - send.began))
            else:
                send.outcome, send.code = (FAIL if error.code() in _CERTAIN else INFO), error.code()

        self._history.sends.append(send)
        self._waiting += 1
        self._producer.produce(self._topic, value=value, partition=partition, on_delivery=done)


class Reader(threading.Thread):
    """A consumer that follows every partition during faults, and records what it received."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._consumer = _consumer(bootstrap, name)
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self._positions: dict[int, int] = defaultdict(int)
        self._history = history
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            messages = [each for each in self._consumer.consume(500, timeout=0.2) if each.error() is None]
            note_poll(self._history, self.name, messages, self._positions)
        self._consumer.close()

    def finish(self) -> None:
        self._stopped.set()
        self.join(60)


def note_poll(history: History, client: str, messages: list[Message], positions: dict[int, int]) -> None:
    now = time.monotonic()
    by_partition: dict[int, list[Message]] = defaultdict(list)
    for message in messages:
        by_partition[message.partition() or 0].append(message)
    for partition, given in by_partition.items():
        records = tuple((message.offset() or 0, message.value() or b"") for message in given)
        history.polls.append(
            Poll(
                client=client,
                partition=PartitionId(given[0].topic() or "", "", partition),
                committed_only=True,
                position=positions[partition],
                next_position=records[-1][0] + 1,
                records=records,
                high_watermark=2**62,
                last_stable_offset=2**62,
                log_start=0,
                began=now,
                ended=now,
            )
        )
        positions[partition] = records[-1][0] + 1


def read_back(bootstrap: str, topic: str, partitions: int, history: History, *, timeout_s: float = 90.0) -> None:
    """Read every partition from start to end with a new consumer."""
    consumer = _consumer(bootstrap, "read-back")
    deadline = time.monotonic() + timeout_s
    try:
        ends = {index: _end(consumer, TopicPartition(topic, index), deadline) for index in range(partitions)}
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
        while any(not _is_whole(found[index], ends[index]) for index in found):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the read-back did not reach the ends {ends}")
            for message in consumer.consume(1000, timeout=1.0):
                if message.error() is None:
                    found[message.partition() or 0].append((message.offset() or 0, message.value() or b""))
    finally:
        consumer.close()
    for index, records in found.items():
        batch = Batch(0, ends[index] - 1, 0, -1, -1, -1, False, None, tuple(records))
        partition_id = PartitionId(topic, "", index)
        history.views.append(View(partition_id, 0, ends[index], ends[index], [batch], dict(records)))


def _is_whole(records: list[tuple[int, bytes]], end: int) -> bool:
    return end == 0 or bool(records and records[-1][0] >= end - 1)


def _end(consumer: Consumer, where: TopicPartition, deadline: float) -> int:
    while True:
        try:
            _, end = consumer.get_watermark_offsets(where, timeout=5.0)
            return int(end)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
