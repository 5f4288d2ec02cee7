"""AllocateProducerIds, version 0: allocates a block of producer ids to a broker; no id is ever allocated twice.

Goes to controller/producer_ids.py on the active controller. Refuses: NOT_CONTROLLER, STALE_BROKER_EPOCH.
"""

from typing import cast

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.types import ProducerId as WireProducerId

from penstock.controller.producer_ids import decide_block
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> AllocateProducerIdsResponse:
    body: AllocateProducerIdsRequest = request.body
    try:
        block = await context.controller.run(
            lambda image: decide_block(image, NodeId(body.broker_id), body.broker_epoch)
        )
    except Refusal as refusal:
        return AllocateProducerIdsResponse(
            throttle_time=NO_THROTTLE,
            error_code=failed(refusal),
            producer_id_start=cast(WireProducerId, -1),
            producer_id_len=int32(0),
        )
    return AllocateProducerIdsResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        producer_id_start=cast(WireProducerId, block.first),
        producer_id_len=int32(block.end - block.first),
    )
