"""AddPartitionsToTxn, versions 0-5: adds partitions to transactions, or verifies that they were added.

v2 adds PRODUCER_FENCED; from v4 on brokers send many transactions in one request, and may ask only to verify
that partitions were added (KIP-890). Either all partitions of a transaction are added or none: if one does not
exist, the others are not attempted. Goes to transactions/partitions.py. Refuses, per partition:
UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED, and what the coordinator refuses.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kio.schema.add_partitions_to_txn.v3.response import (
    AddPartitionsToTxnPartitionResult as PartitionResultV3,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse as ResponseV3
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnTopicResult as TopicResultV3
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, topic_name
from penstock.model.acl import Operation
from penstock.model.errors import Refusal, TopicAuthorizationFailed, UnknownTopicOrPartition
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.model.topic import is_internal
from penstock.transactions.client_codes import for_client
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.errors import TransactionalIdAuthorizationFailed
from penstock.transactions.settings import VERSION_EPOCH_BUMP

MANY_FROM: Final = 4

Errors = Mapping[TopicPartition, int]


async def handle(context: Context, request: Request) -> Any:
    body: AddPartitionsToTxnRequest = request.body
    version = request.header.version
    if version >= MANY_FROM and not request.may_on_cluster(Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.cluster_authorization_failed, results_by_transaction=()
        )
    answers = [(each, await _errors(context, request, each)) for each in body.transactions]
    if version < MANY_FROM:
        return ResponseV3(
            throttle_time=NO_THROTTLE,
            results_by_topic_v3_and_below=tuple(
                TopicResultV3(
                    name=topic_name(name),
                    results_by_partition=tuple(
                        PartitionResultV3(partition_index=int32(index), partition_error_code=error)
                        for index, error in partitions
                    ),
                )
                for name, partitions in _by_topic(answers[0][1])
            ),
        )
    return AddPartitionsToTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=tuple(
                    AddPartitionsToTxnTopicResult(
                        name=topic_name(name),
                        results_by_partition=tuple(
                            AddPartitionsToTxnPartitionResult(partition_index=int32(index), partition_error_code=error)
                            for index, error in partitions
                        ),
                    )
                    for name, partitions in _by_topic(errors)
                ),
            )
            for transaction, errors in answers
        ),
    )


def _by_topic(errors: Errors) -> Iterable[tuple[str, Iterable[tuple[int, ErrorCode]]]]:
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for partition, error in errors.items():
        topics.setdefault(partition.topic, []).append((partition.partition, ErrorCode(error)))
    return topics.items()


async def _errors(context: Context, request: Request, transaction: AddPartitionsToTxnTransaction) -> Errors:
    version = request.header.version
    partitions = tuple(
        dict.fromkeys(
            TopicPartition(TopicName(topic.name), PartitionIndex(index))
            for topic in transaction.topics
            for index in topic.partitions
        )
    )
    if version < MANY_FROM and not request.may_on_transactional_id(Operation.WRITE, transaction.transactional_id):
        return dict.fromkeys(partitions, TransactionalIdAuthorizationFailed.code)
    denied = _denied(request, partitions) if version < MANY_FROM else set()
    wrong = {each: TopicAuthorizationFailed.code for each in partitions if each.topic in denied}
    wrong |= {
        each: UnknownTopicOrPartition.code for each in partitions if each not in wrong and not _exists(context, each)
    }
    if wrong:
        return {each: wrong.get(each, ErrorCode.operation_not_attempted.value) for each in partitions}
    try:
        codes = await _submit(context, transaction, partitions, version)
    except Refusal as refusal:
        codes = (refusal.code,) * len(partitions)
    return {each: for_client(code, version=version) for each, code in zip(partitions, codes, strict=True)}


def _denied(request: Request, partitions: Iterable[TopicPartition]) -> set[str]:
    if request.rights is None:
        return set()
    # Producers never add internal topics by themselves.
    return {
        name
        for name in dict.fromkeys(each.topic for each in partitions)
        if is_internal(name) or not request.may_on_topic(Operation.WRITE, name)
    }


async def _submit(
    context: Context, transaction: AddPartitionsToTxnTransaction, partitions: tuple[TopicPartition, ...], version: int
) -> tuple[int, ...]:
    if transaction.verify_only:
        verify = VerifyPartitions(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            epoch=transaction.producer_epoch,
            partitions=partitions,
        )
        codes: tuple[int, ...] = await context.transactions.ask(transaction.transactional_id, verify)
        return codes
    add = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.producer_epoch,
        partitions=frozenset(partitions),
        client_version=VERSION_EPOCH_BUMP if version >= MANY_FROM else 0,
    )
    return (await context.transactions.add_partitions(add),) * len(partitions)


def _exists(context: Context, partition: TopicPartition) -> bool:
    topic = context.quorum.image.topics.get(partition.topic)
    return topic is not None and 0 <= partition.partition < len(topic.partitions)
