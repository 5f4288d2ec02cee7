"""A key-value table in a compacted topic: write by key, rebuild by reading from the start.

The broker keeps the last value of each key, so the time of a rebuild grows with the number of keys and not with the
number of changes. A value of None deletes the key; the broker keeps that tombstone for delete.retention.ms, so that
a reader who started earlier sees the deletion, too.

    python examples/compacted_table.py localhost:9092 prices fill 200000 1000    200,000 changes of 1,000 keys
    python examples/compacted_table.py localhost:9092 prices                     rebuild the table
"""

import sys
import time
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CALL_S = 30.0
SETTINGS = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted, so small ones leave little uncompacted. Use larger ones for large tables.
    "segment.bytes": str(1024 * 1024),
    # Compact when a tenth of the log is new. The default, half, compacts less often and leaves more to read.
    "min.cleanable.dirty.ratio": "0.1",
}


class Rebuilt(NamedTuple):
    table: dict[bytes, bytes]
    records_read: int
    seconds: float


def make_topic(bootstrap: str, topic: str) -> None:
    """Create the topic with compaction enabled, unless it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, 1, config=SETTINGS)])
    try:
        made[topic].result(CALL_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def fill(bootstrap: str, topic: str, *, events: int, keys: int) -> None:
    """Change the values of some keys repeatedly; every hundredth change deletes one."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(events):
        key = f"key-{number * 7919 % keys:09d}"
        value = None if number % 100 == 99 else f"value {number} of {key} ".ljust(100, ".")
        while True:
            try:
                producer.produce(topic, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(CALL_S):
        raise SystemExit(f"{len(producer)} records were not acknowledged: check the broker at {bootstrap}")


def rebuild(bootstrap: str, topic: str) -> Rebuilt:
    """Read all partitions from the start to their current ends; later changes are ignored."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "no-group", "enable.auto.commit": False})
    table: dict[bytes, bytes] = {}
    records_read = 0
    began = time.monotonic()
    try:
        partitions = consumer.list_topics(topic, CALL_S).topics[topic].partitions
        left = {index: consumer.get_watermark_offsets(TopicPartition(topic, index), CALL_S)[1] for index in partitions}
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in left])
        while left:
            for message in consumer.consume(10_000, timeout=0.1):
                error, key, value = message.error(), message.key(), message.value()
                if error is not None:
                    raise KafkaException(error)
                records_read += 1
                if isinstance(key, bytes) and isinstance(value, bytes):
                    table[key] = value
                elif isinstance(key, bytes):
                    table.pop(key, None)
            # The end offset may have no record any more, but the position still passes it.
            for place in consumer.position([TopicPartition(topic, index) for index in left]):
                if place.offset >= left[place.partition] or not left[place.partition]:
                    del left[place.partition]
    finally:
        consumer.close()
    return Rebuilt(table, records_read, time.monotonic() - began)


def main(words: list[str]) -> None:
    if len(words) == 5 and words[2] == "fill":
        make_topic(words[0], words[1])
        fill(words[0], words[1], events=int(words[3]), keys=int(words[4]))
    elif len(words) == 2:
        found = rebuild(words[0], words[1])
        print(f"{len(found.table)} keys from {found.records_read} records in {found.seconds:.2f} s")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1:])
