"""BrokerHeartbeat, versions 0-2: a broker reports that it is alive, its metadata offset, and the state it wants.

v1 names directories that have gone offline; v2 names cordoned ones, which get no new replicas: a broker that is
read-only names its own. The connection that carries heartbeats is tracked, because its end may mean a dead broker.
Goes to controller/broker_monitor.py on the active controller.
Refuses: NOT_CONTROLLER, STALE_BROKER_EPOCH.
"""

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse

from penstock.controller.heartbeats import Heartbeat
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, present
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> BrokerHeartbeatResponse:
    body: BrokerHeartbeatRequest = request.body
    heartbeat = Heartbeat(
        node_id=NodeId(body.broker_id),
        broker_epoch=body.broker_epoch,
        metadata_offset=body.current_metadata_offset,
        want_fence=body.want_fence,
        want_shut_down=body.want_shut_down,
        offline_log_dirs=tuple(map(present, body.offline_log_dirs)),
        read_only=None if body.cordoned_log_dirs is None else bool(body.cordoned_log_dirs),
    )
    try:
        reply = await context.monitor.heartbeat(heartbeat, request.connection)
    except Refusal as refusal:
        return BrokerHeartbeatResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), is_fenced=True, should_shut_down=False
        )
    return BrokerHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )
