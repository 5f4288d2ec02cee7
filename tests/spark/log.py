"""A topic as other clients see it: filled and read with librdkafka, independently of Spark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

DECIDED_S_MAX = 30.0
PATIENCE_S = 60.0


class Log:
    """Helpers for one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        # It must live longer than the futures that it returns.
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, replicas: int = 1
    ) -> None:
        topic = NewTopic(name, partitions, replicas, config=dict(configs or {}))
        self._admin.create_topics([topic])[name].result(60)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(60)

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(60)

    def trim(self, name: str, partition: int, offset: int) -> None:
        """Delete the records before an offset."""
        where = TopicPartition(name, partition, offset)
        self._admin.delete_records([where])[where].result(60)

    def fill(
        self,
        topic: str,
        values: Iterable[str],
        *,
        partition: int | None = None,
        timestamp: int = 0,
        transaction: str | None = None,
        commit: bool = True,
        headers: list[tuple[str, str | bytes | None]] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Write records whose key is their value; in a transaction if an id is given, which then commits or aborts."""
        given = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0, **(settings or {})}
        if transaction is not None:
            given["transactional.id"] = transaction
        producer = Producer(given)
        if transaction is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for value in values:
            kwargs: dict[str, Any] = {"timestamp": timestamp}
            if partition is not None:
                kwargs["partition"] = partition
            while True:
                try:
                    producer.produce(topic, key=value, value=value, headers=headers or [], **kwargs)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0, "some records were not delivered"
        if transaction is not None:
            producer.commit_transaction() if commit else producer.abort_transaction()

    def committed_values(self, topic: str) -> Counter[str]:
        """Count each value as seen by a read_committed consumer, from start to end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "look",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            self._wait_decided([TopicPartition(topic, index) for index in partitions])
            consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
            seen: Counter[str] = Counter()
            ended: set[int | None] = set()
            while len(ended) < len(partitions):
                for message in consumer.consume(1000, timeout=0.2):
                    error = message.error()
                    if error is None:
                        value = message.value()
                        seen[value.decode() if isinstance(value, bytes) else str(value)] += 1
                    else:
                        assert error.name() == "_PARTITION_EOF", error
                        ended.add(message.partition())
            return seen
        finally:
            consumer.close()

    def _wait_decided(self, places: list[TopicPartition]) -> None:
        """Wait for the markers: EndTxn is answered after the decision, and the markers are written later."""
        deadline = time.monotonic() + DECIDED_S_MAX
        while self._ends(places, IsolationLevel.READ_COMMITTED) != self._ends(places, IsolationLevel.READ_UNCOMMITTED):
            # A transaction left open on purpose stays so: records committed before it are still read.
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def _ends(self, places: list[TopicPartition], isolation: IsolationLevel) -> list[int]:
        asked = dict.fromkeys(places, OffsetSpec.latest())
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # The client waits for a killed leader, even if there is a new one: ask again instead.
            found = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=2)
            try:
                return [each.result(PATIENCE_S).offset for each in found.values()]
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
