"""DescribeTransactions, version 0: the state of transactional ids at their coordinator.

Goes to transactions/admin.py. Refuses, per id: TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST, and what
every coordinator refuses.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import cast

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TopicData, TransactionState
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import TZAware

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int16, int32, milliseconds, topic_name
from penstock.model.acl import Operation
from penstock.model.errors import Refusal
from penstock.transactions.commands import DescribedTransaction, DescribeTransaction
from penstock.transactions.errors import TransactionalIdAuthorizationFailed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def handle(context: Context, request: Request) -> DescribeTransactionsResponse:
    body: DescribeTransactionsRequest = request.body
    states = [_transaction_state(await _describe(context, request, name)) for name in body.transactional_ids]
    return DescribeTransactionsResponse(throttle_time=NO_THROTTLE, transaction_states=tuple(states))


async def _describe(context: Context, request: Request, transactional_id: str) -> DescribedTransaction:
    try:
        if not request.may_on_transactional_id(Operation.DESCRIBE, transactional_id):
            raise TransactionalIdAuthorizationFailed
        found: DescribedTransaction = await context.transactions.ask(
            transactional_id, DescribeTransaction(transactional_id)
        )
    except Refusal as refusal:
        return DescribedTransaction(error=refusal.code, transactional_id=transactional_id)
    if request.rights is None:
        return found
    seen = (each for each in found.partitions if request.may_on_topic(Operation.DESCRIBE, each.topic, is_asked=False))
    return replace(found, partitions=tuple(seen))


def _transaction_state(found: DescribedTransaction) -> TransactionState:
    # Kafka sends 0 for unknown values; -1 is an id without a transaction.
    start_ms = 0 if found.error else found.start_ms
    return TransactionState(
        error_code=ErrorCode(found.error),
        transactional_id=TransactionalId(found.transactional_id),
        transaction_state=found.state,
        transaction_timeout=milliseconds(found.timeout_ms),
        transaction_start_time=cast(TZAware, _EPOCH + timedelta(milliseconds=start_ms)),
        producer_id=ProducerId(found.producer_id),
        producer_epoch=int16(found.epoch),
        topics=tuple(
            TopicData(topic=topic_name(name), partitions=tuple(int32(each.partition) for each in partitions))
            for name, partitions in groupby(found.partitions, key=lambda each: each.topic)
        ),
    )
