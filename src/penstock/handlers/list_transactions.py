"""ListTransactions, versions 0-2: the transactional ids that this node coordinates.

v1 adds the filter by duration, v2 the filter by a regular expression. The response names states of the filter that
do not exist. Goes to transactions/admin.py, in every shard; the expression is matched here, in slices. Refuses:
COORDINATOR_LOAD_IN_PROGRESS while a shard is loading, INVALID_REGULAR_EXPRESSION.
"""

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.acl import Operation
from penstock.model.errors import InvalidRegularExpression, Refusal
from penstock.model.job import Job
from penstock.model.pattern import SHORT_SIZE_MAX, Pattern, check, compiled
from penstock.scheduling.scheduler import SLICE_COST, Pace
from penstock.transactions.commands import ListedTransaction, ListTransactions
from penstock.transactions.states import STATES

INSTRUCTIONS_PER_COST: Final = 50
LONG_MATCH_MIN: Final = 500_000
"""Instructions times characters from which a match may take milliseconds and runs off the event loop."""


async def handle(context: Context, request: Request) -> ListTransactionsResponse:
    body: ListTransactionsRequest = request.body
    command = ListTransactions(
        states=frozenset(body.state_filters),
        producer_ids=frozenset(body.producer_id_filters),
        duration_ms=body.duration_filter,
    )
    error: ErrorCode = NO_ERROR
    try:
        pattern = await _compiled(body.transactional_id_pattern, request.pace)
        found = await context.transactions.list_transactions(command)
        if pattern is not None:
            found = await _matching(found, pattern, request.pace)
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
                if request.may_on_transactional_id(Operation.DESCRIBE, each.transactional_id, is_asked=False)
            ]
        ),
    )


async def _compiled(text: str | None, pace: Pace) -> Pattern | None:
    if not text:
        return None
    try:
        check(text)
        if len(text) > SHORT_SIZE_MAX:
            await pace.rest()
        return compiled(text)
    except ValueError as error:
        raise InvalidRegularExpression(
            f"Transaction ID pattern `{text}` is not a valid regular expression: {error}."
        ) from None


async def _matching(found: list[ListedTransaction], pattern: Pattern, pace: Pace) -> list[ListedTransaction]:
    size = pattern.instruction_count
    matching = []
    async for each in pace.each(found, cost=min(SLICE_COST, 1 + size // INSTRUCTIONS_PER_COST)):
        name = each.transactional_id
        if size * len(name) < LONG_MATCH_MIN:
            is_match = pattern.matches(name)
        else:
            is_match = await pace.finish(partial(_matching_off_the_loop, pattern, name))
        if is_match:
            matching.append(each)
    return matching


def _matching_off_the_loop(pattern: Pattern, name: str) -> Job[bool]:
    is_match: bool = yield partial(pattern.matches, name)
    return is_match
