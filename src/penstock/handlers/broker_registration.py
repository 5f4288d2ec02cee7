"""BrokerRegistration, versions 0-4: a broker process registers after its start.

The response is its broker epoch; it stays fenced until a heartbeat shows that it has caught up. Versions before v2
lack directories, those before v3 the unclean shutdown flag. Goes to controller/broker_monitor.py on the active
controller. Refuses: NOT_CONTROLLER, INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION,
UNSUPPORTED_VERSION.
"""

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

from penstock.controller.brokers import Registration
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int64, present
from penstock.metadata.records import BrokerEndpoint, BrokerFeature
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> BrokerRegistrationResponse:
    try:
        epoch = await context.monitor.register(_command(request.body), request.connection)
    except Refusal as refusal:
        return BrokerRegistrationResponse(throttle_time=NO_THROTTLE, error_code=failed(refusal))
    return BrokerRegistrationResponse(throttle_time=NO_THROTTLE, error_code=NO_ERROR, broker_epoch=int64(epoch))


def _command(body: BrokerRegistrationRequest) -> Registration:
    return Registration(
        node_id=NodeId(body.broker_id),
        cluster_id=body.cluster_id,
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
        rack=body.rack,
        log_dirs=tuple(map(present, body.log_dirs)),
        previous_broker_epoch=body.previous_broker_epoch,
    )
