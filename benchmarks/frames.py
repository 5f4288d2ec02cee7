"""The frames of the raw load: one Produce or Fetch request, encoded once."""

from __future__ import annotations

import random

from tests.differential.batches import START, Batch, record
from tests.differential.entities import request_frame


def produce_frame(topic: str, *, size: int, acks: int = 1, partition: int = 0) -> bytes:
    """Return a Produce request with one batch of about `size` bytes."""
    value_size = min(1000, size)
    noise = random.Random(7)
    values = [noise.randbytes(value_size) for _ in range(max(1, size // value_size))]
    records = tuple(record(index, key=None, value=value) for index, value in enumerate(values))
    data = Batch(records=records, base_timestamp=START, max_timestamp=START).encode()
    rows = [{"name": topic, "partition_data": [{"index": partition, "records": data}]}]
    return request_frame("produce", 9, {"acks": acks, "timeout": 5000, "topic_data": rows})


def fetch_frame(topic: str, *, size: int) -> bytes:
    """Return a Fetch request for up to `size` bytes from the start of the log."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": size}
    rows = [{"topic": topic, "partitions": [partition]}]
    return request_frame(
        "fetch", 4, {"replica_id": -1, "max_wait": 100, "min_bytes": 1, "max_bytes": size, "topics": rows}
    )
