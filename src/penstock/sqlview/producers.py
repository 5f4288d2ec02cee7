"""Tables of transactions, from their coordinators, and of producers, from partition leaders."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest

from penstock.actions.cluster_client import ClusterClient, raise_for_error
from penstock.sqlview.table import Rows
from penstock.wire.api import ApiKey


def transactions(cluster: ClusterClient) -> Rows:
    for node, ids in _listed(cluster):
        request = DescribeTransactionsRequest(transactional_ids=cast(Any, tuple(ids)))
        for each in cluster.send(node, ApiKey.DESCRIBE_TRANSACTIONS, request).transaction_states:
            if each.error_code.value:
                # Expired, or moved to another coordinator, since it was listed.
                continue
            started_ms = round(each.transaction_start_time.timestamp() * 1000)
            yield (
                str(each.transactional_id),
                node,
                each.transaction_state,
                int(each.producer_id),
                int(each.producer_epoch),
                each.transaction_timeout // timedelta(milliseconds=1),
                started_ms if started_ms >= 0 else None,
                ",".join(f"{topic.topic}-{index}" for topic in each.topics for index in topic.partitions),
            )


def producers(cluster: ClusterClient) -> Rows:
    for leader, requested in cluster.by_leader(cluster.topics).items():
        topics: Any = tuple(
            TopicRequest(name=cast(Any, name), partition_indexes=cast(Any, tuple(indexes)))
            for name, indexes in requested
        )
        for topic in cluster.send(leader, ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=topics)).topics:
            for partition in topic.partitions:
                for each in partition.active_producers:
                    open_since = int(each.current_txn_start_offset)
                    yield (
                        str(topic.name),
                        int(partition.partition_index),
                        int(each.producer_id),
                        int(each.producer_epoch),
                        int(each.last_sequence),
                        int(each.last_timestamp),
                        open_since if open_since >= 0 else None,
                    )


def _listed(cluster: ClusterClient) -> Iterator[tuple[int, list[str]]]:
    for node in cluster.brokers:
        answer = cluster.send(node, ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(duration_filter=cast(Any, -1)))
        raise_for_error(answer.error_code, about="the transactions")
        if answer.transaction_states:
            yield node, [str(each.transactional_id) for each in answer.transaction_states]
