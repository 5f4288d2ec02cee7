"""UnregisterBroker, version 0: removes a broker that will not return.

For a broker that has been drained and stopped; one that is still running registers again. Goes to
controller/brokers.py. Refuses: BROKER_ID_NOT_REGISTERED, NOT_CONTROLLER.
"""

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from penstock.controller.brokers import decide_unregistration
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> UnregisterBrokerResponse:
    body: UnregisterBrokerRequest = request.body
    try:
        await context.controller.run(
            lambda image: decide_unregistration(image, NodeId(body.broker_id), context.monitor.rules)
        )
    except Refusal as refusal:
        return UnregisterBrokerResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message
        )
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message=None)
