"""At-most-once: commit before processing.

Guarantee: at-most-once. The offset is committed, and the commit is acknowledged, before the record is processed: a
crash in between loses the record, and no record is ever processed twice. For work where a repetition is worse than a
gap, such as sending a text message or moving a motor.

A commit per record costs a round trip each; here one commit covers a small batch, and a crash loses the rest of the
batch.

    python examples/at_most_once.py localhost:9092 alerts pager
"""

import sys
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

BATCH = 10


def run(
    bootstrap: str, topic: str, group_id: str, handle: Callable[[Message], None], *, idle_polls_max: int | None = None
) -> int:
    """Process records until this many polls in a row were empty (None: forever); return how many."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    handled = idle = 0
    try:
        while idle_polls_max is None or idle < idle_polls_max:
            messages = consumer.consume(BATCH, timeout=1.0)
            if not messages:
                idle += bool(consumer.assignment())
                continue
            idle = 0
            for message in messages:
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
            # If this raises, nothing was processed and nothing is lost: the batch is delivered again.
            consumer.commit(offsets=ends(messages), asynchronous=False)
            for message in messages:
                handle(message)
                handled += 1
    finally:
        consumer.close()
    return handled


def ends(messages: list[Message]) -> list[TopicPartition]:
    """Return for each partition the offset after its last record."""
    last: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        last[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in last.items()]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/at_most_once.py BOOTSTRAP TOPIC GROUP")
    bootstrap, topic, group_id = sys.argv[1:]
    # Ctrl-C is the way to end it.
    with suppress(KeyboardInterrupt):
        run(bootstrap, topic, group_id, lambda message: print(message.key(), message.value()))
