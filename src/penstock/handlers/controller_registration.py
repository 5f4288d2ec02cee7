"""ControllerRegistration, version 0: a controller registers its listeners and supported features.

Goes to controller/controllers.py on the active controller. Refuses: NOT_CONTROLLER.
"""

from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse

from penstock.controller.controllers import ControllerRegistration, decide_controller_registration
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, present
from penstock.metadata.records import BrokerEndpoint, BrokerFeature
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> ControllerRegistrationResponse:
    body: ControllerRegistrationRequest = request.body
    registration = ControllerRegistration(
        node_id=NodeId(body.controller_id),
        incarnation_id=present(body.incarnation_id),
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in body.listeners
        ),
        features=tuple(
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in body.features
        ),
    )
    try:
        await context.controller.run(lambda image: decide_controller_registration(image, registration))
    except Refusal as refusal:
        return ControllerRegistrationResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message
        )
    return ControllerRegistrationResponse(throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message=None)
