"""Offsets kept beside the results, in one database transaction.

Guarantee: exactly-once for what is in the database. A result and the offset behind its record
are written in the same sqlite transaction: after a crash either both are there or neither is. The
group's committed offsets are not used; `assign` and the stored offset say where to go on.

There is no group here, so nothing shares out the partitions: run one process, or give each
process partitions of its own. The primary key on the partition keeps two processes that were
started on the same one by mistake from counting twice: the second finds an offset it does not
expect and stops.

    python examples/external_offsets.py localhost:9092 payments totals.sqlite
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

SCHEMA = """
CREATE TABLE IF NOT EXISTS totals (key TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""


def run(bootstrap: str, topic: str, database: str | Path, *, idle_polls_max: int | None = None) -> int:
    """Add up amounts by key until nothing came for so many polls (None: for ever); return how many records."""
    with closing(sqlite3.connect(database, isolation_level=None)) as store:
        store.executescript(SCHEMA)
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                # The client asks for a name; nothing joins or commits under it.
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
    """Return every partition with the offset that the database expects next, or the log's first."""
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
    """Write the result and the offset behind it together, or neither."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert offset is not None
    store.execute("BEGIN IMMEDIATE")
    try:
        row = store.execute(
            "SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", (topic, partition)
        ).fetchone()
        if row is not None and offset < row[0]:
            raise RuntimeError(f"{topic}-{partition}@{offset} was counted already: is another process running?")
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
    run(*sys.argv[1:4])
