"""InitProducerId, versions 0-5: an identity for a producer that wants its retries recognised.

Without a transactional id every request gets a fresh producer id with epoch 0, also if it brings
along the id it had (v3): there is nothing to fence. With one, a transaction coordinator would have
to answer, and this broker has none yet: COORDINATOR_NOT_AVAILABLE, which clients retry until they
give up. Goes to controller/producer_ids.py. Refuses: INVALID_REQUEST for an empty transactional id
and for a producer id without its epoch, or the other way round.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId as WireProducerId

from penstock.handlers.context import Context, Request
from penstock.handlers.entities import NO_ERROR, NO_THROTTLE, failed, int16
from penstock.model.errors import Refusal
from penstock.model.ids import NO_PRODUCER_ID

NO_PRODUCER_EPOCH: Final = -1


async def handle(context: Context, request: Request) -> InitProducerIdResponse:
    body: InitProducerIdRequest = request.body
    if (int(body.producer_id) == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.invalid_request)
    if body.transactional_id == "":
        return _refused(ErrorCode.invalid_request)
    if body.transactional_id is not None:
        return _refused(ErrorCode.coordinator_not_available)
    try:
        producer_id = await context.producer_ids.take()
    except Refusal as refusal:
        return _refused(failed(refusal))
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        producer_id=WireProducerId(producer_id),
        producer_epoch=int16(0),
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=error, producer_epoch=int16(NO_PRODUCER_EPOCH))
