"""Rows in the columns of Spark's Kafka connector, restricted to those in the schema."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock_client.records.decode import Records, headers


class Columns:
    """Builder of Arrow record batches of one schema for one partition."""

    def __init__(self, schema: pa.Schema, topic: str, partition: int) -> None:
        self._schema = schema
        self._topic = topic
        self._topics = pa.array([], pa.string())
        self._partition = partition

    def batch(self, records: Records) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self._column(field, records) for field in self._schema], schema=self._schema)

    def _column(self, field: pa.Field, records: Records) -> pa.Array:
        count = len(records)
        match field.name:
            case "key":
                return records.keys()
            case "value":
                return records.values()
            case "topic":
                if len(self._topics) < count:
                    self._topics = pa.repeat(self._topic, count)
                return self._topics.slice(0, count)
            case "partition":
                return pa.array(np.full(count, self._partition, dtype=np.int32))
            case "offset":
                return pa.array(records.offsets)
            case "timestamp":
                return pa.array(records.timestamps * 1000).cast(field.type)
            case "timestampType":
                return pa.array(records.timestamp_types)
            case _:
                return headers(records, field.type)
