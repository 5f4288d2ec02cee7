"""An idempotent producer of encoded batches, with several requests in flight and safe retries.

Each partition's batches have increasing sequence numbers and are kept until acknowledged. After an error all
unacknowledged batches are sent again in order, one at a time; the broker uses the numbers to discard duplicates.
Calls cluster.py. Raises BrokerError for permanent errors.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock_client.errors import (
    DUPLICATE_SEQUENCE,
    MESSAGE_TOO_LARGE,
    OUT_OF_ORDER_SEQUENCE,
    BrokerError,
    NoBroker,
    partition_error,
)
from penstock_client.protocol.cluster import Cluster, TopicPartition
from penstock_client.protocol.connection import ConnectionLost
from penstock_client.protocol.coordination import Transaction, add_partitions
from penstock_client.protocol.wire import Buffer, Reader, Writer

PRODUCE: Final = 0
_IN_FLIGHT_MAX: Final = 4
_LANE: Final = "produce"
_SEQUENCES: Final = 1 << 31


@dataclass(slots=True)
class Sealed:
    """One batch in flight."""

    where: TopicPartition
    parts: list[Buffer]

    @property
    def size(self) -> int:
        return sum(len(part) for part in self.parts)


class Producer:
    """The producer of one task. `transaction` is None for plain idempotence."""

    def __init__(self, cluster: Cluster, producer_id: int, epoch: int, transaction: Transaction | None) -> None:
        self._cluster = cluster
        self.producer_id = producer_id
        self.epoch = epoch
        self.transaction = transaction
        self._sequences: dict[TopicPartition, int] = {}
        self._unacked: dict[TopicPartition, deque[Sealed]] = {}
        self._flights: dict[int, deque[list[Sealed]]] = {}
        self._added: set[TopicPartition] = set()

    def sequence(self, where: TopicPartition, count: int) -> int:
        """Reserve sequence numbers for a batch of `count` rows; return the first."""
        first = self._sequences.get(where, 0)
        self._sequences[where] = (first + count) % _SEQUENCES
        return first

    def send(self, batches: Sequence[Sealed]) -> None:
        """Send batches, at most one per partition; wait only while too much is in flight."""
        self._add_to_transaction([batch.where for batch in batches])
        for batch in batches:
            self._unacked.setdefault(batch.where, deque()).append(batch)
        try:
            by_node: dict[int, list[Sealed]] = {}
            for batch in batches:
                by_node.setdefault(self._cluster.leader(*batch.where), []).append(batch)
            for node, ones in by_node.items():
                flights = self._flights.setdefault(node, deque())
                while len(flights) >= _IN_FLIGHT_MAX:
                    self._receive(node)
                self._cluster.to_node(node, _LANE).send(PRODUCE, 8, self._request(ones))
                flights.append(ones)
        except (ConnectionLost, BrokerError) as error:
            self._recover(error)

    def flush(self) -> None:
        """Wait until all batches are acknowledged."""
        try:
            for node, flights in self._flights.items():
                while flights:
                    self._receive(node)
        except (ConnectionLost, BrokerError) as error:
            self._recover(error)

    def _add_to_transaction(self, wanted: Sequence[TopicPartition]) -> None:
        if self.transaction is None:
            return
        fresh = [one for one in wanted if one not in self._added]
        if fresh:
            add_partitions(self._cluster, self.transaction, fresh)
            self._added.update(fresh)

    def _request(self, batches: Sequence[Sealed]) -> Writer:
        by_topic: dict[str, list[Sealed]] = {}
        for batch in batches:
            by_topic.setdefault(batch.where[0], []).append(batch)
        body = Writer().string(self.transaction.transactional_id if self.transaction else None).int16(-1).int32(30_000)

        def one(batch: Sealed) -> None:
            body.int32(batch.where[1]).int32(batch.size)
            for part in batch.parts:
                body.raw(part)

        return body.array(by_topic.items(), lambda pair: body.string(pair[0]).array(pair[1], one))

    def _receive(self, node: int) -> None:
        """Process the oldest outstanding response of a node."""
        flights = self._flights[node]
        reply = self._cluster.to_node(node, _LANE).receive()
        flights.popleft()
        trouble = self._acknowledge(reply)
        if trouble is not None:
            raise trouble

    def _acknowledge(self, reply: Reader) -> BrokerError | None:
        trouble: BrokerError | None = None
        for _ in range(reply.count()):
            name = reply.string()
            for _ in range(reply.count()):
                partition, code = reply.int32(), reply.int16()
                for _ in range(3):
                    reply.int64()
                details = reply.array(lambda: (reply.int32(), reply.nullable_string()))
                detail = reply.nullable_string() or next((text for _, text in details if text), None)
                if code in (0, DUPLICATE_SEQUENCE):
                    self._unacked[name, partition].popleft()
                elif trouble is None or trouble.passing:
                    if code == MESSAGE_TOO_LARGE:
                        detail = (
                            "make rows smaller, lower the option batchBytes, or raise the topic's max.message.bytes"
                        )
                    trouble = partition_error(code, f"writing to {name}-{partition}", detail)
        return trouble

    def _recover(self, error: ConnectionLost | BrokerError) -> None:
        """Send all unacknowledged batches again, in order, until they are acknowledged or the deadline has passed."""
        # Batches sent after a failed one are out of order; they are in order in the next attempt.
        if isinstance(error, BrokerError) and not error.passing and error.code != OUT_OF_ORDER_SEQUENCE:
            raise error
        started = time.monotonic()
        pause = 0.05
        while True:
            self._cluster.close()
            self._flights.clear()
            try:
                self._cluster.refresh({name for name, _ in self._unacked})
                while any(self._unacked.values()):
                    self._resend_heads()
                return
            except (ConnectionLost, BrokerError) as again:
                if isinstance(again, BrokerError) and not again.passing:
                    raise
                if time.monotonic() - started > self._cluster.deadline_s:
                    raise NoBroker(
                        f"writing failed for {self._cluster.deadline_s:.0f} s; the last error was: {again}"
                    ) from again
            time.sleep(pause)
            pause = min(1.0, pause * 2)

    def _resend_heads(self) -> None:
        by_node: dict[int, list[Sealed]] = {}
        for where, waiting in self._unacked.items():
            if waiting:
                by_node.setdefault(self._cluster.leader(*where), []).append(waiting[0])
        for node, ones in by_node.items():
            trouble = self._acknowledge(self._cluster.to_node(node, _LANE).call(PRODUCE, 8, self._request(ones)))
            if trouble is not None:
                raise trouble
