"""EndTxn, versions 0-5: commits or aborts a transaction; answered when the decision is durable, before the markers.

v2 adds PRODUCER_FENCED, v4 TRANSACTION_ABORTABLE; from v5 on each end of a transaction raises the producer's epoch,
and the response contains the producer id and epoch to continue with (KIP-890). Goes to transactions/ending.py.
"""

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int16
from penstock.model.acl import Operation
from penstock.model.errors import Refusal
from penstock.transactions.client_codes import for_client
from penstock.transactions.commands import EndTxn, EndTxnReply
from penstock.transactions.errors import TransactionalIdAuthorizationFailed
from penstock.transactions.settings import VERSION_EPOCH_BUMP

EPOCH_BUMP_FROM = 5


async def handle(context: Context, request: Request) -> EndTxnResponse:
    body: EndTxnRequest = request.body
    version = request.header.version
    command = EndTxn(
        transactional_id=body.transactional_id,
        producer_id=body.producer_id,
        epoch=body.producer_epoch,
        is_commit=body.committed,
        client_version=VERSION_EPOCH_BUMP if version >= EPOCH_BUMP_FROM else 0,
    )
    reply: EndTxnReply
    try:
        if not request.may_on_transactional_id(Operation.WRITE, body.transactional_id):
            raise TransactionalIdAuthorizationFailed
        reply = await context.transactions.ask(body.transactional_id, command)
    except Refusal as refusal:
        reply = EndTxnReply(error=refusal.code)
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(for_client(reply.error, version=version)),
        producer_id=ProducerId(reply.producer_id),
        producer_epoch=int16(reply.epoch),
    )
