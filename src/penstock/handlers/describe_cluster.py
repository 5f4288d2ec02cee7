"""DescribeCluster, versions 0-2: the cluster's id and its brokers.

v1 adds the requested endpoint type: brokers (1) or controllers (2), which only a controller listener
answers. v2 can include fenced brokers, which are otherwise omitted.
Reads the image and the voters. Refuses: MISMATCHED_ENDPOINT_TYPE for controllers on another listener,
UNSUPPORTED_ENDPOINT_TYPE for any other type; v0 has no endpoint type.
"""

from typing import Final

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode

from penstock.handlers.support.cluster_view import (
    controller_for_clients,
    controller_listeners,
    is_reachable,
    reachable_brokers,
    voter_endpoints,
)
from penstock.handlers.support.context import Context, Request, cluster_operations
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int8, int32, node
from penstock.model.ids import NO_NODE, NodeId

BROKERS: Final = 1
CONTROLLERS: Final = 2
OPERATIONS_UNKNOWN: Final = int32(-(2**31))


async def handle(context: Context, request: Request) -> DescribeClusterResponse:
    body: DescribeClusterRequest = request.body
    if body.endpoint_type == CONTROLLERS:
        if request.listener in controller_listeners(context.settings):
            return _controllers(context)
        return _refused(
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if body.endpoint_type != BROKERS:
        return _refused(ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {body.endpoint_type}")
    image = context.quorum.image
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        cluster_id=context.cluster_id,
        controller_id=node(_controller(context, request.listener)),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=node(broker.node_id),
                host=end_point.host,
                port=int32(end_point.port),
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker, end_point in reachable_brokers(image, request.listener, with_fenced=body.include_fenced_brokers)
        ),
        cluster_authorized_operations=(
            cluster_operations(request) if body.include_cluster_authorized_operations else OPERATIONS_UNKNOWN
        ),
    )


def _controller(context: Context, listener: str) -> NodeId:
    """Return the active controller if the client can reach it, or a broker that forwards requests to it."""
    image, leader = context.quorum.image, context.quorum.leader
    if leader is not None and is_reachable(image, leader, listener):
        return leader
    return controller_for_clients(image, context.node_id, listener)


def _controllers(context: Context) -> DescribeClusterResponse:
    leader = context.quorum.leader
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        endpoint_type=int8(CONTROLLERS),
        cluster_id=context.cluster_id,
        controller_id=node(NO_NODE if leader is None else leader),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=node(voter.id), host=end_point.host, port=int32(end_point.port), rack=None, is_fenced=False
            )
            for voter in context.quorum.voter_registry.present
            for end_point in voter_endpoints(context, voter)[:1]
        ),
        cluster_authorized_operations=OPERATIONS_UNKNOWN,
    )


def _refused(error: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, cluster_id="", brokers=()
    )
