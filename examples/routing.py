"""Four ways to choose a partition: by key, by the client's default, round-robin, and by a custom rule.

python examples/routing.py --bootstrap localhost:9092
"""

import argparse
from collections import Counter
from collections.abc import Callable
from itertools import count

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "routing-demo"
PARTITIONS = 4
RECORDS = 400

PriorityLane = Callable[[str], int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    bootstrap = parser.parse_args().bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC]
    problem = created.exception(timeout=30)
    if problem is not None and problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
        raise problem
    # murmur2 is the hash of Java clients: all clients send the same key to the same partition.
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})

    print("by key     ", by_key(producer))
    print("no key     ", without_key(producer))
    print("round-robin", round_robin(producer))
    print(
        "custom rule", by_rule(producer, lambda customer: 0 if customer.startswith("vip-") else 1 + len(customer) % 3)
    )


def by_key(producer: Producer) -> dict[int, int]:
    """Send all records of a customer to one partition, where they stay in order."""
    return _sent(
        producer, lambda number, done: producer.produce(TOPIC, key=f"customer-{number % 50}", on_delivery=done)
    )


def without_key(producer: Producer) -> dict[int, int]:
    """Let the client fill a batch for one partition, then move to another: fewer, larger requests."""
    return _sent(producer, lambda number, done: producer.produce(TOPIC, value=str(number), on_delivery=done))


def round_robin(producer: Producer) -> dict[int, int]:
    """Distribute records evenly by strict round-robin, at the price of smaller batches."""
    turns = count()
    return _sent(
        producer,
        lambda number, done: producer.produce(
            TOPIC, value=str(number), partition=next(turns) % PARTITIONS, on_delivery=done
        ),
    )


def by_rule(producer: Producer, lane: PriorityLane) -> dict[int, int]:
    """Use a custom partitioner: important customers get partition 0."""

    def send(number: int, done: Callable[[KafkaError | None, Message], None]) -> None:
        customer = f"vip-{number}" if number % 10 == 0 else f"customer-{number}"
        producer.produce(TOPIC, key=customer, partition=lane(customer), on_delivery=done)

    return _sent(producer, send)


def _sent(
    producer: Producer, send: Callable[[int, Callable[[KafkaError | None, Message], None]], None]
) -> dict[int, int]:
    landed: Counter[int] = Counter()

    def done(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(error.str())
        partition = message.partition()
        assert partition is not None
        landed[partition] += 1

    for number in range(RECORDS):
        send(number, done)
        producer.poll(0)
    producer.flush(30)
    return dict(sorted(landed.items()))


if __name__ == "__main__":
    main()
