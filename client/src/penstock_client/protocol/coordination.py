"""Requests to coordinators: group offsets and transactions.

Each function is one request with its retries. `end_all` ends many transactions, pipelined to each coordinator.
Calls cluster.py. Raises BrokerError; a fencing error means that another producer has the transactional id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_client.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
    BrokerBehind,
    BrokerError,
    partition_error,
)
from penstock_client.protocol.cluster import GROUP, TRANSACTION, Cluster, TopicPartition
from penstock_client.protocol.connection import Connection, ConnectionLost
from penstock_client.protocol.wire import Reader, Writer

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS: Final = 24
END_TXN: Final = 26
LIST_TRANSACTIONS: Final = 66
_COMMIT_LANE: Final = "commits"
# Not INVALID_PRODUCER_ID_MAPPING: an expired id does not show how its last transaction ended.
TAKEN_OVER: Final = frozenset({INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED})


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction as known to its coordinator."""

    transactional_id: str
    producer_id: int
    epoch: int


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    body = _offsets_body(group, offsets)

    def attempt() -> None:
        _check_commit(cluster.coordinator(GROUP, group).call(OFFSET_COMMIT, 7, body), group)

    cluster.retrying(f"committing offsets of group {group!r}", attempt)


def _offsets_body(group: str, offsets: Mapping[TopicPartition, int]) -> Writer:
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for (name, partition), offset in offsets.items():
        by_topic.setdefault(name, []).append((partition, offset))
    body = Writer().string(group).int32(-1).string("").string(None)

    def topic(pair: tuple[str, list[tuple[int, int]]]) -> None:
        body.string(pair[0])
        body.array(pair[1], lambda one: body.int32(one[0]).int64(one[1]).int32(-1).string(None))

    return body.array(by_topic.items(), topic)


def _check_partitions(
    reply: Reader, about: Callable[[str], str], error: Callable[[int, str], BrokerError] = BrokerError
) -> None:
    """Raise for the first partition with an error; `about` describes the request for the message."""
    reply.int32()
    for _ in range(reply.count()):
        name = reply.string()
        for _ in range(reply.count()):
            partition, code = reply.int32(), reply.int16()
            if code:
                raise error(code, about(f"{name}-{partition}"))


def _check_commit(reply: Reader, group: str) -> None:
    _check_partitions(reply, lambda partition: f"committing {partition} for group {group!r}")


class Commits:
    """Offset commits of a group that do not wait for the response, which is checked before the next commit."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._told: Mapping[TopicPartition, int] = {}
        self._on_the_way: Connection | None = None

    def send(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.wait()
        body = _offsets_body(self._group, offsets)

        def send() -> Connection:
            connection = self._cluster.to_coordinator(GROUP, self._group, _COMMIT_LANE)
            connection.send(OFFSET_COMMIT, 7, body)
            return connection

        self._told = offsets
        self._on_the_way = self._cluster.retrying(f"committing offsets of group {self._group!r}", send)

    def wait(self) -> None:
        """Check the response; after a transient error, commit again and wait."""
        connection, self._on_the_way = self._on_the_way, None
        if connection is None:
            return
        try:
            _check_commit(connection.receive(), self._group)
        except (BrokerError, ConnectionLost) as error:
            if isinstance(error, BrokerError) and not error.passing:
                raise
            self._cluster.forget_coordinators()
            commit_offsets(self._cluster, self._group, self._told)


def fetch_offsets(cluster: Cluster, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
    """Return the committed offsets of one topic, without partitions that have none."""
    body = Writer().string(group).int32(1).string(topic)
    body.array(partitions, body.int32)

    def attempt() -> dict[int, int]:
        reply = cluster.coordinator(GROUP, group).call(OFFSET_FETCH, 5, body)
        reply.int32()
        found = {}
        for _ in range(reply.count()):
            reply.string()
            for _ in range(reply.count()):
                partition, offset, _epoch = reply.int32(), reply.int64(), reply.int32()
                reply.nullable_string()
                code = reply.int16()
                if code:
                    raise BrokerError(code, f"offsets of group {group!r}")
                if offset >= 0:
                    found[partition] = offset
        code = reply.int16()
        if code:
            raise BrokerError(code, f"offsets of group {group!r}")
        return found

    return cluster.retrying(f"fetching offsets of group {group!r}", attempt)


def init_producer(cluster: Cluster, transactional_id: str | None, timeout_ms: int) -> tuple[int, int]:
    """Return a producer id and epoch. With a transactional id, an open transaction of the previous owner is aborted."""
    body = Writer().string(transactional_id).int32(timeout_ms)

    def attempt() -> tuple[int, int]:
        if transactional_id is None:
            connection = cluster.any()
        else:
            connection = cluster.coordinator(TRANSACTION, transactional_id)
        reply = connection.call(INIT_PRODUCER_ID, 1, body)
        reply.int32()
        code = reply.int16()
        if code:
            raise BrokerError(code, f"starting producer {transactional_id or ''!r}")
        return reply.int64(), reply.int16()

    return cluster.retrying(f"starting producer {transactional_id or ''!r}", attempt)


def add_partitions(cluster: Cluster, transaction: Transaction, partitions: Sequence[TopicPartition]) -> None:
    by_topic: dict[str, list[int]] = {}
    for name, partition in partitions:
        by_topic.setdefault(name, []).append(partition)
    body = Writer().string(transaction.transactional_id).int64(transaction.producer_id).int16(transaction.epoch)
    body.array(by_topic.items(), lambda pair: body.string(pair[0]).array(pair[1], body.int32))

    def attempt() -> None:
        reply = cluster.coordinator(TRANSACTION, transaction.transactional_id).call(ADD_PARTITIONS, 2, body)
        what = f"to {transaction.transactional_id!r}"
        try:
            _check_partitions(reply, lambda partition: f"adding {partition} {what}", partition_error)
        except BrokerBehind:
            cluster.refresh(by_topic)
            for name in by_topic:
                cluster.topic(name)  # raises if it was deleted
            raise

    cluster.retrying(f"adding partitions to {transaction.transactional_id!r}", attempt)


def end_all(cluster: Cluster, transactions: Sequence[Transaction], *, commit: bool) -> list[Transaction]:
    """End all transactions; return those that this client no longer owns. Repeating the same outcome is safe."""
    left = list(transactions)
    taken: list[Transaction] = []

    def step() -> None:
        sent: dict[int, list[Transaction]] = {}
        connections = {}
        cluster.find_coordinators(TRANSACTION, [one.transactional_id for one in left])
        for one in left:
            connection = cluster.coordinator(TRANSACTION, one.transactional_id)
            body = Writer().string(one.transactional_id).int64(one.producer_id).int16(one.epoch).boolean(commit)
            connection.send(END_TXN, 2, body)
            connections[id(connection)] = connection
            sent.setdefault(id(connection), []).append(one)
        passing: BrokerError | None = None
        for key, ones in sent.items():
            for one in ones:
                reply = connections[key].receive()
                reply.int32()
                code = reply.int16()
                if code == 0 or code in TAKEN_OVER:
                    left.remove(one)
                    if code:
                        taken.append(one)
                else:
                    passing = BrokerError(code, f"ending transaction {one.transactional_id!r}")
        if passing is not None:
            raise passing

    def step_closing() -> None:
        # Outstanding responses would be mistaken for those of the next attempt.
        try:
            step()
        except ConnectionLost:
            cluster.close()
            raise

    if left:
        cluster.retrying("ending transactions", step_closing)
    return taken


def open_transactions(cluster: Cluster, prefix: str) -> list[str]:
    """Return the transactional ids with this prefix that have an open transaction, from all coordinators."""
    body = Writer(compact=True)
    body.array(["Ongoing"], body.string).array([], body.int64).tags()

    def attempt(node: int) -> list[str]:
        reply = cluster.to_node(node).call(LIST_TRANSACTIONS, 0, body)
        reply.int32()
        code = reply.int16()
        if code:
            raise BrokerError(code, "listing transactions")
        reply.array(reply.string)
        found = []
        for _ in range(reply.count()):
            name = reply.string()
            reply.int64()
            reply.string()
            reply.tags()
            if name.startswith(prefix):
                found.append(name)
        return found

    names: list[str] = []
    for node in cluster.nodes():
        names += cluster.retrying("listing transactions", lambda node=node: attempt(node))  # type: ignore[misc]
    return names
