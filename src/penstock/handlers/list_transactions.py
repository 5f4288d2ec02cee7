"""ListTransactions, versions 0-2: the transactional ids that this node coordinates.

v1 adds the filter by duration, v2 the filter by a regular expression. The response names states of the filter that
do not exist. Goes to transactions/admin.py, in every shard. Refuses: COORDINATOR_LOAD_IN_PROGRESS while a shard is
loading, INVALID_REGULAR_EXPRESSION.
"""

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.errors import Refusal
from penstock.transactions.commands import ListTransactions
from penstock.transactions.states import STATES


async def handle(context: Context, request: Request) -> ListTransactionsResponse:
    body: ListTransactionsRequest = request.body
    command = ListTransactions(
        states=frozenset(body.state_filters),
        producer_ids=frozenset(body.producer_id_filters),
        duration_ms=body.duration_filter,
        pattern=body.transactional_id_pattern,
    )
    error: ErrorCode = NO_ERROR
    try:
        found = await context.transactions.list_transactions(command)
    except Refusal as refusal:
        error, found = failed(refusal), []
    names = {state.name for state in STATES.values()}
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        unknown_state_filters=tuple(name for name in dict.fromkeys(body.state_filters) if name not in names),
        transaction_states=tuple(
            [
                TransactionState(
                    transactional_id=TransactionalId(each.transactional_id),
                    producer_id=ProducerId(each.producer_id),
                    transaction_state=each.state,
                )
                async for each in request.pace.each(found)
            ]
        ),
    )
