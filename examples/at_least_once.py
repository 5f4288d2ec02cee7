"""At-least-once: manual commit after processing.

Guarantee: at-least-once. The offset is committed after the record was processed, so after a crash in between the
record is delivered again: nothing is lost, and processing must tolerate repetition.

Most commits are asynchronous, so that processing does not wait for them; when partitions are revoked and at the end
they are synchronous, so that as little as possible is repeated.

    python examples/at_least_once.py localhost:9092 orders billing
"""

import sys
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

COMMIT_EVERY = 100


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
            # Only stored offsets are committed, and they are stored after processing.
            "enable.auto.offset.store": False,
        }
    )

    def give_back(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        commit_stored(consumer)

    consumer.subscribe([topic], on_revoke=give_back)
    handled = idle = 0
    try:
        while idle_polls_max is None or idle < idle_polls_max:
            message = consumer.poll(1.0)
            if message is None:
                # Do not count empty polls before this member has joined the group.
                idle += bool(consumer.assignment())
                continue
            idle = 0
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            handle(message)
            consumer.store_offsets(message)
            handled += 1
            if handled % COMMIT_EVERY == 0:
                consumer.commit(asynchronous=True)
    finally:
        commit_stored(consumer)
        consumer.close()
    return handled


def commit_stored(consumer: Consumer) -> None:
    """Commit the stored offsets and wait; having nothing to commit is not an error."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].name() != "_NO_OFFSET":
            # Not fatal: uncommitted records are delivered again.
            print(f"commit failed: {error.args[0].str()}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/at_least_once.py BOOTSTRAP TOPIC GROUP")
    bootstrap, topic, group_id = sys.argv[1:]
    # Ctrl-C is the way to end it.
    with suppress(KeyboardInterrupt):
        run(bootstrap, topic, group_id, lambda message: print(message.key(), message.value()))
