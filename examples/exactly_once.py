"""Read, transform, write and commit in one transaction.

Guarantee: exactly-once, from topic to topic. The results and the offsets of the records they come from are committed
together, so a crash leaves both or neither; a restarted process continues after the last committed transaction.
Readers of the results must read only committed records (isolation.level=read_committed, the default of librdkafka).

The transaction does not cover anything outside of topics. `transform` may be called twice for the same record, so it
should compute a result and have no side effects.

    python examples/exactly_once.py localhost:9092 orders billing invoices
"""

import sys
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BATCH = 100
CALL_S = 30.0

Transform = Callable[[Message], bytes]


def run(
    bootstrap: str,
    topic: str,
    group_id: str,
    target: str,
    transform: Transform,
    *,
    idle_polls_max: int | None = None,
) -> int:
    """Transform records until this many polls in a row were empty (None: forever); return how many."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            # The transaction commits the offsets.
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            # Unique for each concurrent process, and the same after a restart: the new process then aborts the
            # transaction that the old one left open, and fences it if it is still running.
            "transactional.id": f"{group_id}-{target}",
        }
    )
    insist(lambda: producer.init_transactions(CALL_S))
    batch: list[Message] = []

    def moved(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Records read from revoked partitions belong to their new owner. Without these callbacks partitions would
        # be reassigned at any time, and not only inside poll.
        batch.clear()

    consumer.subscribe([topic], on_assign=moved, on_revoke=moved, on_lost=moved)
    done = idle = 0
    try:
        while idle_polls_max is None or idle < idle_polls_max:
            fill(consumer, batch)
            if not batch:
                idle += bool(consumer.assignment())
                continue
            idle = 0
            try:
                transact(consumer, producer, batch, target, transform)
                done += len(batch)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    # For example: another process has taken over the transactional id.
                    raise
                insist(lambda: producer.abort_transaction(CALL_S))
                rewind(consumer)
            batch.clear()
    finally:
        consumer.close()
    return done


def fill(consumer: Consumer, batch: list[Message]) -> None:
    """Wait for a record, then take those that are available."""
    wait_s = 1.0
    while len(batch) < BATCH:
        message = consumer.poll(wait_s)
        if message is None:
            return
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        batch.append(message)
        wait_s = 0.0


def transact(consumer: Consumer, producer: Producer, batch: list[Message], target: str, transform: Transform) -> None:
    """Commit results and offsets atomically."""
    producer.begin_transaction()
    for message in batch:
        producer.produce(target, transform(message), message.key())
        producer.poll(0)
    # With the group metadata the broker rejects offsets of a member that was replaced.
    group = consumer.consumer_group_metadata()
    insist(lambda: producer.send_offsets_to_transaction(ends(batch), group, CALL_S))
    insist(lambda: producer.commit_transaction(CALL_S))


def insist(call: Callable[[], object]) -> None:
    """Repeat a call while its error is retriable."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets, to read the records of an aborted transaction again."""
    for place in consumer.committed(consumer.assignment(), CALL_S):
        place.offset = max(place.offset, 0)
        consumer.seek(place)


def ends(messages: list[Message]) -> list[TopicPartition]:
    """Return the offset after the last record of each partition."""
    last: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        last[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in last.items()]


def shout(message: Message) -> bytes:
    print(message.key(), message.value())
    return (message.value() or b"").upper()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: python examples/exactly_once.py BOOTSTRAP TOPIC GROUP TARGET_TOPIC")
    bootstrap, topic, group_id, target = sys.argv[1:]
    # Ctrl-C is the way to end it. The open transaction is aborted.
    with suppress(KeyboardInterrupt):
        run(bootstrap, topic, group_id, target, shout)
