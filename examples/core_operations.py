"""The core operations with plain confluent-kafka: create a topic, produce, consume, commit.

Nothing here is specific to Penstock: the same code runs against any Kafka cluster.

Guarantee: `produce` returns after all in-sync replicas have acknowledged the record, and the idempotent producer
prevents duplicates on retries. `consume` commits before it returns, so its caller gets each record at most once;
at_least_once.py commits after processing.

    python examples/core_operations.py localhost:9092
"""

import os
import sys
import time
from contextlib import closing, suppress
from functools import cache

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "localhost:9092")
TIMEOUT_S = 30.0


def create_topic(topic: str, partitions: int = 3, replication_factor: int = 1) -> None:
    """Create a topic, or do nothing if it exists."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    future = admin.create_topics([NewTopic(topic, partitions, replication_factor)])[topic]
    try:
        future.result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def produce(topic: str, key: str | bytes | None, value: str | bytes | None, acks: str = "all") -> tuple[int, int]:
    """Write one record; return its partition and offset once it is acknowledged."""
    reports: list[tuple[KafkaError | None, Message]] = []
    producer = _producer(BOOTSTRAP, acks)
    producer.produce(topic, key=key, value=value, on_delivery=lambda error, report: reports.append((error, report)))
    producer.flush(TIMEOUT_S)
    if not reports:
        raise TimeoutError(f"no delivery report for {topic} within {TIMEOUT_S:g} s")
    error, report = reports[0]
    if error is not None:
        raise KafkaException(error)
    partition, offset = report.partition(), report.offset()
    assert partition is not None and offset is not None
    return partition, offset


def consume(group_id: str, topics: list[str], max_messages: int) -> list[Message]:
    """Read up to this many records as a member of a group, commit, and leave the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    with closing(consumer):
        consumer.subscribe(topics)
        messages: list[Message] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(messages) < max_messages and (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(min(left, 1.0))
            if message is None:
                continue
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            messages.append(message)
        if messages:
            # The committed offset is the next offset to read, for each partition that was read.
            consumer.commit(offsets=_behind(messages), asynchronous=False)
        return messages


def commit_offset(group_id: str, topic: str, partition: int, offset: int) -> None:
    """Set the committed offset of a group, from a consumer that never subscribed. The group must have no members."""
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": group_id, "enable.auto.commit": False})
    with closing(consumer):
        committed = consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        for entry in committed or []:
            if entry.error is not None:
                raise KafkaException(entry.error)


@cache
def _producer(bootstrap: str, acks: str) -> Producer:
    """Return one producer for all calls: connections and sequence numbers are expensive to set up."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            # Idempotence requires the acknowledgement of all in-sync replicas.
            "enable.idempotence": acks == "all",
            "compression.type": "lz4",
            "linger.ms": 5,
        }
    )


def _behind(messages: list[Message]) -> list[TopicPartition]:
    """Return the offset after the last record of each partition."""
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        ends[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


def main() -> None:
    topic = group_id = "core-operations"
    create_topic(topic, partitions=1)
    for number in range(5):
        partition, offset = produce(topic, f"key-{number}", f"value-{number}")
        print(f"produced {topic}-{partition}@{offset}")
    for message in consume(group_id, [topic], max_messages=5):
        print(f"consumed {message.key()!r} {message.value()!r} at {message.offset()}")
    commit_offset(group_id, topic, partition=0, offset=3)
    for message in consume(group_id, [topic], max_messages=2):
        print(f"consumed again {message.key()!r} {message.value()!r} at {message.offset()}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        BOOTSTRAP = sys.argv[1]
    with suppress(KeyboardInterrupt):
        main()
