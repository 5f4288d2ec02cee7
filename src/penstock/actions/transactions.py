"""Transactions: listed and described by coordinators, and open ones as partition leaders see them.

A transaction hangs if a partition holds it open and no coordinator has that partition in its transaction: no
coordinator will end it, and consumers with read_committed wait behind it.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple, cast

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

from penstock.actions.cluster_client import ClusterClient, raise_for_error
from penstock.actions.errors import ActionError, unknown_partition, unknown_topic
from penstock.wire.api import ApiKey

TRANSACTION: Final = 1
FENCE_TIMEOUT_S: Final = 10.0
FENCE_RETRY_S: Final = 0.05
# Newer versions are for transactions of protocol 2, in which an abort bumps the epoch (KIP-890).
INIT_PRODUCER_ID_VERSION_MAX: Final = 4
ENDED_STATES: Final = ("Empty", "CompleteCommit", "CompleteAbort")


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    """-1 if no transaction was started."""
    partitions: list[str]


class OpenTransaction(NamedTuple):
    """An open transaction in one partition, as its leader sees it."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


# -- coordinators ----------------------------------------------------------------------------


def list_transactions(
    cluster: ClusterClient,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """List the transactional ids of all coordinators. Every filter that is given must match."""
    request: Any = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=cast(Any, tuple(producer_ids)),
        duration_filter=cast(Any, duration_ms),
        transactional_id_pattern=pattern,
    )
    found = []
    for node_id in cluster.brokers:
        answer = cluster.send(node_id, ApiKey.LIST_TRANSACTIONS, request)
        raise_for_error(answer.error_code, about=pattern or "transactions")
        if answer.unknown_state_filters:
            raise ActionError(
                f"Invalid transaction state '{', '.join(answer.unknown_state_filters)}': expected Empty, Ongoing, "
                "PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."
            )
        found += [
            ListedTransaction(each.transactional_id, node_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
    return sorted(found)


def describe_transaction(cluster: ClusterClient, transactional_id: str) -> DescribedTransaction:
    node_id = _coordinator(cluster, transactional_id)
    request: Any = DescribeTransactionsRequest(transactional_ids=cast(Any, (transactional_id,)))
    (found,) = cluster.send(node_id, ApiKey.DESCRIBE_TRANSACTIONS, request).transaction_states
    raise_for_error(found.error_code, about=transactional_id)
    return DescribedTransaction(
        transactional_id,
        node_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout // timedelta(milliseconds=1),
        round(found.transaction_start_time.timestamp() * 1000),
        [f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions],
    )


def abort_transaction(cluster: ClusterClient, transactional_id: str) -> None:
    """Abort the open transaction of an id and fence its producer."""
    before = describe_transaction(cluster, transactional_id)
    if before.state in ENDED_STATES:
        raise ActionError(
            f"Cannot abort '{transactional_id}': it has no open transaction; its state is {before.state}."
        )
    fence_producer(cluster, transactional_id)
    if before.state == "PrepareCommit":
        raise ActionError(
            f"Cannot abort '{transactional_id}': its transaction was already committing. It is committed now, and its "
            "producer is fenced."
        )


def fence_producer(cluster: ClusterClient, transactional_id: str) -> None:
    """Initialize a new producer for the id, which aborts the open transaction and fences the old producer."""
    deadline = time.monotonic() + FENCE_TIMEOUT_S
    # The coordinator rejects the new producer until the abort is complete.
    while (error := _init_producer(cluster, transactional_id)) is ErrorCode.concurrent_transactions:
        if time.monotonic() > deadline:
            break
        time.sleep(FENCE_RETRY_S)
    raise_for_error(error, about=transactional_id)


def _init_producer(cluster: ClusterClient, transactional_id: str) -> ErrorCode:
    request: Any = InitProducerIdRequest(
        transactional_id=cast(Any, transactional_id), transaction_timeout=cast(Any, timedelta(minutes=1))
    )
    coordinator = _coordinator(cluster, transactional_id)
    answer = cluster.send(coordinator, ApiKey.INIT_PRODUCER_ID, request, newest=INIT_PRODUCER_ID_VERSION_MAX)
    return cast(ErrorCode, answer.error_code)


def _coordinator(cluster: ClusterClient, transactional_id: str) -> int:
    (node_id,) = cluster.coordinators([transactional_id], TRANSACTION)
    return node_id


# -- partition leaders -----------------------------------------------------------------------


def find_hanging_transactions(
    cluster: ClusterClient, *, topics: Collection[str] = (), partition: int | None = None, written_before_ms: int
) -> list[OpenTransaction]:
    """Find open transactions without a recent write that no coordinator will end, by default in all topics."""
    suspects = [
        each
        for name in (topics or [str(topic.name) for topic in cluster.topics])
        for each in open_transactions(cluster, name, partition_indexes(cluster, name, partition))
        if each.last_timestamp_ms <= written_before_ms
    ]
    producer_ids = tuple({each.producer_id for each in suspects})
    listed = list_transactions(cluster, producer_ids=producer_ids) if producer_ids else []
    ids = {each.producer_id: each.transactional_id for each in listed}
    return [
        each
        for each in suspects
        if each.producer_id not in ids
        or not _is_in_transaction(cluster, ids[each.producer_id], f"{each.topic}-{each.partition}")
    ]


def abort_hanging_transaction(
    cluster: ClusterClient, *, topic: str, partition: int, start_offset: int
) -> OpenTransaction:
    """Write the abort marker of the open transaction that starts at an offset; return the transaction."""
    for each in open_transactions(cluster, topic, partition_indexes(cluster, topic, partition)):
        if each.start_offset == start_offset:
            _write_abort_marker(cluster, each)
            return each
    raise ActionError(
        f"No open transaction of {topic}-{partition} starts at offset {start_offset}.", code="NO_SUCH_TRANSACTION"
    )


def open_transactions(cluster: ClusterClient, topic: str, indexes: Iterable[int]) -> list[OpenTransaction]:
    """Return the open transactions in partitions of a topic, whether or not a coordinator has them."""
    by_leader: dict[int, list[int]] = {}
    for index in indexes:
        by_leader.setdefault(_leader(cluster, topic, index), []).append(index)
    found = []
    for node_id, chosen in by_leader.items():
        wanted: Any = TopicRequest(name=cast(Any, topic), partition_indexes=cast(Any, tuple(chosen)))
        answer = cluster.send(node_id, ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=(wanted,)))
        for partition in answer.topics[0].partitions:
            raise_for_error(partition.error_code, about=f"{topic}-{partition.partition_index}")
            found += [
                OpenTransaction(
                    topic,
                    partition.partition_index,
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                    each.last_timestamp,
                )
                for each in partition.active_producers
                if each.current_txn_start_offset >= 0
            ]
    return sorted(found)


def partition_indexes(cluster: ClusterClient, topic: str, wanted: int | None = None) -> list[int]:
    """Return the partitions of a topic, or only the wanted one."""
    found = _partitions(cluster, topic)
    if wanted is not None and wanted not in found:
        raise unknown_partition(topic, wanted, len(found))
    return sorted(found) if wanted is None else [wanted]


def _write_abort_marker(cluster: ClusterClient, hanging: OpenTransaction) -> None:
    marker: Any = WritableTxnMarker(
        producer_id=cast(Any, hanging.producer_id),
        producer_epoch=cast(Any, hanging.epoch),
        transaction_result=False,
        coordinator_epoch=cast(Any, max(hanging.coordinator_epoch, 0)),
        topics=(
            WritableTxnMarkerTopic(name=cast(Any, hanging.topic), partition_indexes=cast(Any, (hanging.partition,))),
        ),
    )
    node_id = _leader(cluster, hanging.topic, hanging.partition)
    # Version 2 carries a transaction version that an old transaction does not have.
    answer = cluster.send(node_id, ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=(marker,)), newest=1)
    result = answer.markers[0].topics[0].partitions[0]
    raise_for_error(result.error_code, about=f"{hanging.topic}-{hanging.partition}")


def _is_in_transaction(cluster: ClusterClient, transactional_id: str, partition: str) -> bool:
    """Return whether the coordinator has the partition in the open transaction and so will end it there."""
    with suppress(ActionError):
        return partition in describe_transaction(cluster, transactional_id).partitions
    return False


def _leader(cluster: ClusterClient, topic: str, index: int) -> int:
    leader = _partitions(cluster, topic)[index]
    if leader not in cluster.brokers:
        raise ActionError(f"{topic}-{index} has no leader. Try again later.")
    return leader


def _partitions(cluster: ClusterClient, topic: str) -> dict[int, int]:
    """Return the leader of each partition of a topic."""
    for each in cluster.topics:
        if each.name == topic:
            return {int(found.partition_index): int(found.leader_id) for found in each.partitions}
    raise unknown_topic(topic)
