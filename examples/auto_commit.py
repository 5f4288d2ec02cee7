"""Auto-commit: the client commits in the background, periodically and at the end.

Guarantee: at-least-once, because of `enable.auto.offset.store=false`: only processed records are stored, and only
stored offsets are committed. After a crash, up to one interval of records is delivered again. With the default of
that setting, poll stores an offset before the record is processed, and a crash during processing can lose it.

    python examples/auto_commit.py localhost:9092 clicks dashboard
"""

import sys
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message


def run(
    bootstrap: str, topic: str, group_id: str, handle: Callable[[Message], None], *, idle_polls_max: int | None = None
) -> int:
    """Process records until this many polls in a row were empty (None: forever); return how many."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 1000,
            # Stored explicitly, after processing.
            "enable.auto.offset.store": False,
        }
    )
    consumer.subscribe([topic])
    handled = idle = 0
    try:
        while idle_polls_max is None or idle < idle_polls_max:
            message = consumer.poll(1.0)
            if message is None:
                idle += bool(consumer.assignment())
                continue
            idle = 0
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            handle(message)
            consumer.store_offsets(message)
            handled += 1
    finally:
        # close() commits the stored offsets, so a clean shutdown repeats nothing.
        consumer.close()
    return handled


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/auto_commit.py BOOTSTRAP TOPIC GROUP")
    bootstrap, topic, group_id = sys.argv[1:]
    # Ctrl-C is the way to end it.
    with suppress(KeyboardInterrupt):
        run(bootstrap, topic, group_id, lambda message: print(message.key(), message.value()))
