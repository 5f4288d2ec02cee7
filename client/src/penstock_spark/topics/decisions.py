"""The decision log: a record commits a batch of a query and names its transactions.

It is a compacted topic with one partition, keyed by query id. The first record of a (batch, round) is the decision; a
later one of the same pair lost a race and is ignored. A consumer group's offset stores the position of the query's
last decision, so that the search does not grow with the log. docs/spark.md describes the protocol.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock_client.errors import (
    OFFSET_OUT_OF_RANGE,
    TOPIC_EXISTS,
    UNKNOWN_TOPIC,
    BrokerError,
    PenstockClientError,
    partition_error,
)
from penstock_client.protocol.cluster import EARLIEST, LATEST, Cluster
from penstock_client.protocol.connection import ConnectionLost
from penstock_client.protocol.coordination import Transaction, commit_offsets, fetch_offsets
from penstock_client.protocol.producer import PRODUCE
from penstock_client.protocol.wire import Writer
from penstock_client.records.simple import decode_all, encode_one

_FETCH: Final = 1
# The number of records a search may skip before the query's position is committed again.
_HINT_AGE_MAX: Final = 50
_REPLICAS_MAX: Final = 3
_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Old decisions are removed within hours, but never while two drivers may still race for the same batch.
    "segment.ms": "3600000",
    "segment.bytes": "16777216",
    "min.compaction.lag.ms": "3600000",
}


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """The decision to commit batch `batch` by ending these transactions; `partitions` are the tasks that wrote them."""

    query: str
    batch: int
    run: str
    transactions: tuple[Transaction, ...] = ()
    partitions: tuple[int, ...] = ()
    round: int = 0

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": 1,
                "query": self.query,
                "batch": self.batch,
                "round": self.round,
                "run": self.run,
                "transactions": [
                    [partition, one.transactional_id, one.producer_id, one.epoch]
                    for partition, one in zip(self.partitions, self.transactions, strict=True)
                ],
            }
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> BatchDecision:
        given = json.loads(text)
        return cls(
            query=given["query"],
            batch=given["batch"],
            run=given["run"],
            transactions=tuple(Transaction(name, pid, epoch) for _, name, pid, epoch in given["transactions"]),
            partitions=tuple(one[0] for one in given["transactions"]),
            round=given["round"],
        )

    @property
    def order(self) -> tuple[int, int]:
        return self.batch, self.round

    def of_partition(self, partition: int) -> list[Transaction]:
        pairs = zip(self.partitions, self.transactions, strict=True)
        return [one for index, one in pairs if index == partition]


_NONE: Final = BatchDecision(query="", batch=-1, run="")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The part of the log that this process has read, up to `position`; `best` is the query's newest decision in it."""

    topic_id: bytes
    hint: int
    position: int
    best: tuple[int, BatchDecision]


# By bootstrap address, topic and query. A driver decides batch after batch and need not read its own records again.
_seen: Final[dict[tuple[str, str, str], _Seen]] = {}


class DecisionLog:
    """The decision log of one query."""

    def __init__(self, cluster: Cluster, topic: str, query: str) -> None:
        self._cluster = cluster
        self._key = (cluster.bootstrap, topic, query)
        self._topic = topic
        self._query = query
        self._group = f"{topic}.{query}"

    def last(self) -> BatchDecision | None:
        """Return the newest decision of the query, if check_exists is one."""
        if self._topic not in self._cluster.refresh([self._topic]):
            return None
        end = self._cluster.list_offsets({(self._topic, 0): LATEST})[self._topic, 0]
        found = self._search(self._hint(), end)
        return found[1] if found else None

    def decide(self, decision: BatchDecision) -> BatchDecision:
        """Append a decision and return the effective one: this, or one that another driver appended first."""
        if self._topic not in self._cluster.refresh([self._topic]):
            self._create()
        topic_id = self._cluster.topic(self._topic).topic_id
        seen = _seen.get(self._key)
        if seen is None or seen.topic_id != topic_id:
            seen = self._nothing_seen(topic_id)
        offset = self._append(decision)
        if offset < seen.position:  # the log was truncated, as an unclean election may do
            seen = self._nothing_seen(topic_id)
        if seen.position == offset:  # no other record was written meanwhile
            found = seen.best if seen.best[1].order >= decision.order else (offset, decision)
        else:
            found = self._search(seen.position, offset + 1, seen.best) or (-1, _NONE)
        assert found[0] >= 0, "an appended record can be read"
        hint = seen.hint
        if found[0] - hint >= _HINT_AGE_MAX:
            self._remember(found[0])
            hint = found[0]
        _seen[self._key] = _Seen(topic_id, hint, offset + 1, found)
        return found[1]

    def _nothing_seen(self, topic_id: bytes) -> _Seen:
        hint = self._hint()
        return _Seen(topic_id, hint, hint, (-1, _NONE))

    def _hint(self) -> int:
        return fetch_offsets(self._cluster, self._group, self._topic, [0]).get(0, 0)

    def _remember(self, offset: int) -> None:
        # Without it the next search takes longer but finds the same.
        try:
            commit_offsets(self._cluster, self._group, {(self._topic, 0): offset})
        except PenstockClientError:
            return

    def _search(
        self, start: int, end: int, best: tuple[int, BatchDecision] | None = None
    ) -> tuple[int, BatchDecision] | None:
        key = self._query.encode()
        for offset, one_key, value in self._records(start, end):
            if one_key == key and value:
                decision = BatchDecision.from_json(value)
                if best is None or decision.order > best[1].order:
                    best = offset, decision
        return best

    def _records(self, position: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        while position < end:
            before = position
            try:
                records = self._cluster.retrying("reading decisions", lambda at=position: self._fetch(at))  # type: ignore[misc]
            except BrokerError as error:
                if error.code != OFFSET_OUT_OF_RANGE:
                    raise
                position = self._cluster.list_offsets({(self._topic, 0): EARLIEST})[self._topic, 0]
                continue
            for offset, key, value in records:
                if offset >= position:
                    position = offset + 1
                    yield offset, key, value
            if position == before:
                raise PenstockClientError(f"cannot read the decision log {self._topic!r} at offset {position}")

    def _fetch(self, position: int) -> list[tuple[int, bytes | None, bytes | None]]:
        topic = self._cluster.topic(self._topic)
        body = Writer(compact=True).int32(-1).int32(500).int32(1).int32(1 << 22).int8(0).int32(0).int32(-1)
        body.raw(b"\x02").raw(topic.topic_id).raw(b"\x02").int32(0).int32(-1).int64(position)
        body.int32(-1).int64(-1).int32(1 << 22).tags().tags().raw(b"\x01").string("").tags()
        try:
            reply = self._cluster.to_node(self._cluster.leader(self._topic, 0)).call(_FETCH, 13, body)
        except (ConnectionLost, BrokerError):
            self._cluster.refresh([self._topic])
            raise
        reply.int32()
        code = reply.int16()
        reply.int32()
        if not code and reply.count():
            reply.uuid()
            reply.count()
            reply.int32()
            code = reply.int16()
        if code:
            self._cluster.refresh([self._topic])
            raise partition_error(code, f"reading the decision log {self._topic!r}")
        for _ in range(3):
            reply.int64()
        for _ in range(reply.count()):
            reply.int64()
            reply.int64()
            reply.tags()
        reply.int32()
        start, end = reply.span()
        return list(decode_all(memoryview(reply.data), start, end))

    def _append(self, decision: BatchDecision) -> int:
        data = encode_one(self._query.encode(), decision.to_json(), int(time.time() * 1000))
        body = Writer().string(None).int16(-1).int32(30_000).int32(1).string(self._topic).int32(1).int32(0).bytes_(data)

        def attempt() -> int:
            try:
                reply = self._cluster.to_node(self._cluster.leader(self._topic, 0)).call(PRODUCE, 8, body)
            except (ConnectionLost, BrokerError):
                self._cluster.refresh([self._topic])
                raise
            reply.count()
            reply.string()
            reply.count()
            reply.int32()
            code, offset = reply.int16(), reply.int64()
            if code:
                self._cluster.refresh([self._topic])
                raise partition_error(code, f"writing to the decision log {self._topic!r}")
            return offset

        # A record sent twice after an error is in the log twice, and the first one counts.
        return self._cluster.retrying("writing a decision", attempt)

    def _create(self) -> None:
        # Not the cluster's default replication factor, which may be 1: without this log no batch can be committed.
        replicas = min(_REPLICAS_MAX, len(self._cluster.nodes()))
        code = self._cluster.create_topic(self._topic, partitions=1, replicas=replicas, configs=_TOPIC_CONFIGS)
        if code not in (0, TOPIC_EXISTS):
            raise BrokerError(
                code, f"creating the decision log {self._topic!r} (set decisionTopic to another one, or create it)"
            )

        def check_exists() -> None:
            if self._topic not in self._cluster.refresh([self._topic]):
                raise BrokerError(5, f"topic {self._topic!r}", f"just created, {UNKNOWN_TOPIC}")
            self._cluster.leader(self._topic, 0)

        self._cluster.retrying(f"waiting for {self._topic!r}", check_exists)
