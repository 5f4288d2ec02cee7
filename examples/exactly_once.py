"""Read, transform, write and commit in one transaction.

Guarantee: exactly-once, from topic to topic. The results and the offset behind the records they come
from are committed together, so a crash at any moment leaves both or neither; whoever goes on begins
where the last committed transaction ended. Readers of the results must ask for committed records only
(isolation.level=read_committed, the default of librdkafka).

What the transaction does not cover: everything that is not in a topic. `transform` may be called
twice for the same record, so it should compute and have no effects.

    python examples/exactly_once.py localhost:9092 orders billing invoices
"""

import sys
from collections.abc import Callable

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
    """Transform records until nothing came for so many polls (None: for ever); return how many."""
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
            # One for each process that runs at the same time, and the same one after a restart: the new
            # process then ends at once what the old one left open, and locks it out if it still lives.
            "transactional.id": f"{group_id}-{target}",
        }
    )
    insist(lambda: producer.init_transactions(CALL_S))
    batch: list[Message] = []

    def moved(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # What was read of partitions that have gone is for their new owner. Without these callbacks partitions
        # would change hands at any moment, and not only inside of poll.
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
                    # Among them: another process has taken over the transactional id.
                    raise
                insist(lambda: producer.abort_transaction(CALL_S))
                rewind(consumer)
            batch.clear()
    finally:
        consumer.close()
    return done


def fill(consumer: Consumer, batch: list[Message]) -> None:
    """Wait for a record, and take what else is there."""
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
    """Results and offsets, both or neither."""
    producer.begin_transaction()
    for message in batch:
        producer.produce(target, transform(message), message.key())
        producer.poll(0)
    # With the group's metadata the broker refuses offsets of a member that was replaced.
    group = consumer.consumer_group_metadata()
    insist(lambda: producer.send_offsets_to_transaction(ends(batch), group, CALL_S))
    insist(lambda: producer.commit_transaction(CALL_S))


def insist(call: Callable[[], object]) -> None:
    """Call again as long as the error says that it may help."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed: the records of an aborted transaction are read again."""
    for place in consumer.committed(consumer.assignment(), CALL_S):
        place.offset = max(place.offset, 0)
        consumer.seek(place)


def ends(messages: list[Message]) -> list[TopicPartition]:
    """Return for each partition the offset after its last record."""
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
    bootstrap, topic, group_id, target = sys.argv[1:5]
    run(bootstrap, topic, group_id, target, shout)
