"""Auto-commit: the client commits in the background, every so often and at the end.

Guarantee: at-least-once, thanks to `enable.auto.offset.store=false`: only what was handled is
stored, and only what is stored is committed. After a crash up to one interval's worth of records
is delivered again. With the default of that setting, poll stores a record before it is handled,
and a crash in the middle of the work can lose it.

    python examples/auto_commit.py localhost:9092 clicks dashboard
"""

import sys
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message


def run(
    bootstrap: str, topic: str, group_id: str, handle: Callable[[Message], None], *, idle_polls_max: int | None = None
) -> int:
    """Handle records until nothing came for so many polls (None: for ever); return how many."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 1000,
            # Stored by hand, after the work.
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
        # Close commits what is stored, so a clean end repeats nothing.
        consumer.close()
    return handled


if __name__ == "__main__":
    bootstrap, topic, group_id = sys.argv[1:4]
    run(bootstrap, topic, group_id, lambda message: print(message.key(), message.value()))
