"""The executor side of the sink: chooses partitions, encodes and produces rows in a transaction that it leaves open.

Calls records/ for encoding and protocol/producer.py. The driver ends the transaction (writers.py). Raises for rows
without a topic, for a partition that does not exist, and for a row too large for a batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_client.errors import PenstockClientError
from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.producer import Producer, Sealed
from penstock_client.records.encode import Payload, payloads, seal
from penstock_client.records.partitioner import partitions_of
from penstock_spark.topics.options import SinkOptions

_GATHER_BYTES: Final = 4 * 1024 * 1024


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches: each one becomes at least one record batch per partition."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GATHER_BYTES:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


class RowWriter:
    """A writer of Arrow batches through one producer."""

    def __init__(self, cluster: Cluster, producer: Producer, options: SinkOptions, turn: int) -> None:
        self._cluster = cluster
        self._producer = producer
        self._options = options
        # Rows without a key go to one partition for a while, then to the next; tasks start at different ones.
        self._turn = turn
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
        for topic, rows in self._by_topic(columns, batch.num_rows):
            chosen = columns if rows is None else {name: column.take(rows) for name, column in columns.items()}
            self._write_topic(topic, chosen)
        self.rows += batch.num_rows

    def _by_topic(self, columns: dict[str, pa.Array], count: int) -> Iterator[tuple[str, pa.Array | None]]:
        if self._options.topic is not None:
            yield self._options.topic, None
            return
        names = columns["topic"]
        if names.null_count:
            raise PenstockClientError("a row has a null topic: fill the column topic, or set the option topic")
        encoded = names.dictionary_encode()
        for index, name in enumerate(encoded.dictionary.to_pylist()):
            if len(encoded.dictionary) == 1:
                yield name, None
            else:
                rows = np.nonzero(np.asarray(encoded.indices) == index)[0]
                yield name, pa.array(rows)

    def _write_topic(self, topic: str, columns: dict[str, pa.Array]) -> None:
        values = _binary(columns["value"])
        keys = _binary(columns["key"]) if "key" in columns else None
        headers = columns.get("headers") if self._options.include_headers else None
        count = len(values)
        stamps = _timestamps(columns.get("timestamp"), count)
        where = self._partitions(topic, keys, columns.get("partition"), count)
        rounds: list[list[tuple[int, Payload]]] = []
        for partition in np.unique(where).tolist():
            rows = np.nonzero(where == partition)[0]
            if len(rows) == count:
                written = payloads(keys, values, stamps, headers, size_max=self._options.batch_bytes)
            else:
                index = pa.array(rows)
                written = payloads(
                    None if keys is None else keys.take(index),
                    values.take(index),
                    stamps[rows],
                    None if headers is None else headers.take(index),
                    size_max=self._options.batch_bytes,
                )
            for turn, payload in enumerate(written):
                if turn == len(rounds):
                    rounds.append([])
                rounds[turn].append((partition, payload))
        for one in rounds:
            self._producer.send([self._sealed(topic, partition, payload) for partition, payload in one])

    def _sealed(self, topic: str, partition: int, payload: Payload) -> Sealed:
        where = (topic, partition)
        return Sealed(
            where,
            seal(
                payload,
                codec=self._options.codec,
                producer_id=self._producer.producer_id,
                epoch=self._producer.epoch,
                sequence=self._producer.sequence(where, payload.count),
                transactional=self._producer.transaction is not None,
            ),
        )

    def _partitions(
        self, topic: str, keys: pa.Array | None, given: pa.Array | None, count: int
    ) -> npt.NDArray[np.int64]:
        """Return the partition of each row: the column's, else by the key's hash, else the current one of the task."""
        available = len(self._cluster.topic(topic).leaders)
        self._turn += 1
        chosen = np.full(count, self._turn % available, dtype=np.int64)
        if keys is not None and keys.null_count < count:
            hashed = partitions_of(keys, available)
            chosen = np.where(_valid(keys), hashed, chosen)
        if given is not None and given.null_count < count:
            numbers = np.asarray(given.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
            chosen = np.where(_valid(given), numbers, chosen)
            if (chosen < 0).any() or (chosen >= available).any():
                bad = int(chosen[(chosen < 0) | (chosen >= available)][0])
                raise PenstockClientError(
                    f"a row has partition {bad} of topic {topic!r}, whose partitions are 0 to {available - 1}"
                )
        return chosen


def _valid(column: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _binary(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _timestamps(column: pa.Array | None, count: int) -> npt.NDArray[np.int64]:
    now = int(time.time() * 1000)
    if column is None or column.null_count == count:
        return np.full(count, now, dtype=np.int64)
    micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    if micros.null_count:
        micros = pc.fill_null(micros, now * 1000)
    return np.asarray(micros.to_numpy(zero_copy_only=False), dtype=np.int64) // 1000
