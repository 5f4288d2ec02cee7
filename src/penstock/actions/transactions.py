"""Transactions as the cluster tells of them: asked of every broker, of coordinators, of leaders.

The client library gives the brokers and the leaders, direct.py asks them the rest.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

from penstock.actions.connection import REQUEST_TIMEOUT_S, open_admin
from penstock.cli.direct import ask, ask_broker
from penstock.cli.errors import CommandError
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

TRANSACTION: Final = 1
FENCE_TIMEOUT_S: Final = 10.0
FENCE_PAUSE_S: Final = 0.05
_NEXT_STEPS: Final = {
    ErrorCode.transactional_id_not_found: "'penstock txn list' shows the transactional ids there are",
    ErrorCode.coordinator_not_available: "try again in a moment",
    ErrorCode.coordinator_load_in_progress: "try again in a moment",
    ErrorCode.not_coordinator: "try again in a moment",
    ErrorCode.concurrent_transactions: "its last transaction is still being ended; try again in a moment",
    ErrorCode.unknown_topic_or_partition: "'penstock topic list' shows the topics there are",
    ErrorCode.invalid_producer_epoch: "the producer has gone on since; 'penstock txn find-hanging' looks again",
    ErrorCode.invalid_regular_expression: "check the pattern",
}


class Listed(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Described(NamedTuple):
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    """-1 if nothing has been begun."""
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


class Cluster:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.metadata: ClusterMetadata = open_admin(bootstrap).list_topics(timeout=REQUEST_TIMEOUT_S)

    # -- coordinators ----------------------------------------------------------------------

    def list_all(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[Listed]:
        request: Any = ListTransactionsRequest(
            state_filters=tuple(states),
            producer_id_filters=cast(Any, tuple(producer_ids)),
            duration_filter=cast(Any, duration_ms),
            transactional_id_pattern=pattern,
        )
        found = []
        for node_id in sorted(self.metadata.brokers):
            answer = self._ask(node_id, ApiKey.LIST_TRANSACTIONS, 2, request)
            _check(answer.error_code, about=pattern or "the transactions")
            if answer.unknown_state_filters:
                raise CommandError(
                    f"There is no state {', '.join(answer.unknown_state_filters)}: "
                    "write Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."
                )
            found += [
                Listed(each.transactional_id, node_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ]
        return sorted(found)

    def describe(self, transactional_id: str) -> Described:
        node_id = self._coordinator(transactional_id)
        request: Any = DescribeTransactionsRequest(transactional_ids=cast(Any, (transactional_id,)))
        (found,) = self._ask(node_id, ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
        _check(found.error_code, about=transactional_id)
        return Described(
            transactional_id,
            node_id,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout // timedelta(milliseconds=1),
            round(found.transaction_start_time.timestamp() * 1000),
            [f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions],
        )

    def fence(self, transactional_id: str) -> None:
        """Take the id over as a new producer would: what the old one has open is aborted, and it is fenced."""
        deadline = time.monotonic() + FENCE_TIMEOUT_S
        # While the abort is carried out, the id cannot be taken over yet.
        while (error := self._take_over(transactional_id)) is ErrorCode.concurrent_transactions:
            if time.monotonic() > deadline:
                break
            time.sleep(FENCE_PAUSE_S)
        _check(error, about=transactional_id)

    def _take_over(self, transactional_id: str) -> ErrorCode:
        request: Any = InitProducerIdRequest(
            transactional_id=cast(Any, transactional_id), transaction_timeout=cast(Any, timedelta(minutes=1))
        )
        answer = self._ask(self._coordinator(transactional_id), ApiKey.INIT_PRODUCER_ID, 4, request)
        return cast(ErrorCode, answer.error_code)

    def _coordinator(self, transactional_id: str) -> int:
        request: Any = FindCoordinatorRequest(key_type=cast(Any, TRANSACTION), coordinator_keys=(transactional_id,))
        (found,) = ask(self._bootstrap, ApiKey.FIND_COORDINATOR, 4, request).coordinators
        _check(found.error_code, about=transactional_id)
        return int(found.node_id)

    # -- leaders ---------------------------------------------------------------------------

    def open_transactions(self, topic: str, indexes: Iterable[int]) -> list[OpenTransaction]:
        """What partitions of one topic hold open, whatever their coordinators think."""
        by_leader: dict[int, list[int]] = {}
        for index in indexes:
            by_leader.setdefault(self._leader(topic, index), []).append(index)
        found = []
        for node_id, chosen in by_leader.items():
            asked: Any = TopicRequest(name=cast(Any, topic), partition_indexes=cast(Any, tuple(chosen)))
            answer = self._ask(node_id, ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=(asked,)))
            for partition in answer.topics[0].partitions:
                _check(partition.error_code, about=f"{topic}-{partition.partition_index}")
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

    def abort(self, hanging: OpenTransaction) -> None:
        """Write the abort marker that no coordinator will write."""
        marker: Any = WritableTxnMarker(
            producer_id=cast(Any, hanging.producer_id),
            producer_epoch=cast(Any, hanging.epoch),
            transaction_result=False,
            coordinator_epoch=cast(Any, max(hanging.coordinator_epoch, 0)),
            topics=(
                WritableTxnMarkerTopic(
                    name=cast(Any, hanging.topic), partition_indexes=cast(Any, (hanging.partition,))
                ),
            ),
        )
        node_id = self._leader(hanging.topic, hanging.partition)
        answer = self._ask(node_id, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=(marker,)))
        result = answer.markers[0].topics[0].partitions[0]
        _check(result.error_code, about=f"{hanging.topic}-{hanging.partition}")

    def indexes(self, topic: str, wanted: int | None = None) -> list[int]:
        """The partitions of a topic, or the one that is wanted."""
        found = self.metadata.topics.get(topic)
        if found is None:
            raise CommandError(f"There is no topic {topic}: 'penstock topic list' shows the topics there are.")
        if wanted is not None and wanted not in found.partitions:
            raise CommandError(f"{topic} has no partition {wanted}: it has 0 to {max(found.partitions)}.")
        return sorted(found.partitions) if wanted is None else [wanted]

    def transactional_ids(self, producer_ids: Iterable[int]) -> dict[int, str]:
        wanted = tuple(set(producer_ids))
        listed = self.list_all(producer_ids=wanted) if wanted else []
        return {each.producer_id: each.transactional_id for each in listed}

    def is_known(self, transactional_id: str, place: str) -> bool:
        """Whether the coordinator has the partition in the id's transaction, and so will end it there."""
        with suppress(CommandError):
            return place in self.describe(transactional_id).partitions
        return False

    def _leader(self, topic: str, index: int) -> int:
        leader: int = self.metadata.topics[topic].partitions[index].leader
        if leader not in self.metadata.brokers:
            raise CommandError(f"{topic}-{index} has no leader now: try again in a moment.")
        return leader

    def _ask(self, node_id: int, api_key: int, version: int, request: Any) -> Any:
        broker: Any = self.metadata.brokers[node_id]
        return ask_broker(broker.host, broker.port, api_key, version, request)


def _check(error: ErrorCode, *, about: str) -> None:
    if error is not ErrorCode.none:
        next_step = _NEXT_STEPS.get(error)
        raise CommandError(f"{about}: {error.name.replace('_', ' ')}{f' - {next_step}' if next_step else ''}.")
