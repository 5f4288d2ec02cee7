"""Offsets stored with the results in one database transaction.

Guarantee: exactly-once for the contents of the database. A result and the offset of its record are written in the
same SQLite transaction: after a crash both exist or neither does. The group's committed offsets are not used; the
consumer assigns partitions and starts at the stored offsets.

There is no group, so partitions are not distributed: run one process, or give each process its own partitions. If
two processes are started on the same partition by mistake, the primary key prevents double counting: the second one
finds an unexpected offset and stops.

    python examples/external_offsets.py localhost:9092 payments totals.sqlite
"""

import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

SCHEMA = """
CREATE TABLE IF NOT EXISTS totals (key TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""


def run(bootstrap: str, topic: str, database: str | Path, *, idle_polls_max: int | None = None) -> int:
    """Add up amounts by key until this many polls in a row were empty (None: forever); return the record count."""
    with closing(sqlite3.connect(database, isolation_level=None)) as store:
        store.executescript(SCHEMA)
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                # The client requires a group id, but does not join the group or commit.
                "group.id": "external-offsets",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        with closing(consumer):
            consumer.assign(starts(consumer, store, topic))
            handled = idle = 0
            while idle_polls_max is None or idle < idle_polls_max:
                message = consumer.poll(1.0)
                if message is None:
                    idle += 1
                    continue
                idle = 0
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                apply(store, message)
                handled += 1
            return handled


def starts(consumer: Consumer, store: sqlite3.Connection, topic: str) -> list[TopicPartition]:
    """Return every partition with the next offset from the database, or the start of the log."""
    found = consumer.list_topics(topic, timeout=30).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    stored = dict(store.execute("SELECT partition, next_offset FROM offsets WHERE topic = ?", (topic,)))
    places = []
    for index in found.partitions:
        first, _ = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)
        places.append(TopicPartition(topic, index, stored.get(index, first)))
    return places


def apply(store: sqlite3.Connection, message: Message) -> None:
    """Write the result and the offset atomically."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert offset is not None
    store.execute("BEGIN IMMEDIATE")
    try:
        row = store.execute(
            "SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", (topic, partition)
        ).fetchone()
        if row is not None and offset < row[0]:
            raise RuntimeError(
                f"{topic}-{partition}@{offset} was already counted: check whether another process is running"
            )
        store.execute(
            "INSERT INTO totals VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET amount = amount + excluded.amount",
            ((message.key() or b"").decode(), int(message.value() or b"0")),
        )
        store.execute(
            "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next_offset = excluded.next_offset",
            (topic, partition, offset + 1),
        )
        store.execute("COMMIT")
    except BaseException:
        store.execute("ROLLBACK")
        raise


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/external_offsets.py BOOTSTRAP TOPIC DATABASE_FILE")
    # Ctrl-C is the way to end it.
    with suppress(KeyboardInterrupt):
        run(*sys.argv[1:])
