"""InitProducerId, versions 0-5: a producer id for an idempotent or transactional producer.

Without a transactional id every request gets a new producer id with epoch 0, even if it contains the
previous id (v3): there is nothing to fence. With one, the transaction coordinator fences the previous
producer of that id and ends its open transaction. v3 lets a producer continue after an error, v4 adds
PRODUCER_FENCED. Goes to controller/producer_ids.py and transactions/init_producer_id.py. Refuses:
INVALID_REQUEST for an empty transactional id and for a producer id without an epoch or an epoch without an
id, and what the coordinator refuses.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId as WireProducerId

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, in_milliseconds, int16
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import ClusterAuthorizationFailed, Refusal
from penstock.model.ids import NO_PRODUCER_ID
from penstock.security.rights import Rights
from penstock.transactions.client_codes import INIT_PRODUCER_ID_KNOWS_FENCED, for_client
from penstock.transactions.commands import InitProducerId, InitProducerIdReply
from penstock.transactions.errors import TransactionalIdAuthorizationFailed

NO_PRODUCER_EPOCH: Final = -1


async def handle(context: Context, request: Request) -> InitProducerIdResponse:
    body: InitProducerIdRequest = request.body
    if (int(body.producer_id) == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.invalid_request)
    if body.transactional_id == "":
        return _refused(ErrorCode.invalid_request)
    try:
        if body.transactional_id is not None:
            if not request.may_on_transactional_id(Operation.WRITE, body.transactional_id):
                raise TransactionalIdAuthorizationFailed
            return await _init_transactional(context, body, request.header.version)
        if request.rights is not None and not _may_be_idempotent(request, request.rights):
            raise ClusterAuthorizationFailed
        producer_id = await context.producer_ids.take()
    except Refusal as refusal:
        return _refused(failed(refusal))
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        producer_id=WireProducerId(producer_id),
        producer_epoch=int16(0),
    )


def _may_be_idempotent(request: Request, rights: Rights) -> bool:
    """Return whether the client may write to any topic (KIP-679)."""
    return request.may_on_cluster(Operation.IDEMPOTENT_WRITE, is_asked=False) or rights.allows_any(
        Operation.WRITE, ResourceType.TOPIC, api_key=request.header.api_key
    )


async def _init_transactional(context: Context, body: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
    assert body.transactional_id is not None
    command = InitProducerId(
        transactional_id=body.transactional_id,
        timeout_ms=in_milliseconds(body.transaction_timeout),
        producer_id=body.producer_id,
        epoch=body.producer_epoch,
    )
    reply: InitProducerIdReply = await context.transactions.ask(body.transactional_id, command)
    error = for_client(reply.error, version=version, knows_fenced_from=INIT_PRODUCER_ID_KNOWS_FENCED)
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(error),
        producer_id=WireProducerId(reply.producer_id),
        producer_epoch=int16(reply.epoch),
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=error, producer_epoch=int16(NO_PRODUCER_EPOCH))
