"""DescribeCluster, versions 0-2: the cluster's id and its brokers.

v1 says which kind of endpoint is asked for: brokers (1) or controllers (2). This listener is a
broker's. v2 can ask for fenced brokers too; without that they are left out.
Reads the image. Refuses: MISMATCHED_ENDPOINT_TYPE for controllers, UNSUPPORTED_ENDPOINT_TYPE for
anything else; v0 cannot ask for either.
"""

from typing import Final

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode

from penstock.handlers.cluster_view import controller_for_clients, reachable_brokers
from penstock.handlers.context import Context, Request
from penstock.handlers.entities import CLUSTER_OPERATIONS, NO_ERROR, NO_THROTTLE, int32, node

BROKERS: Final = 1
CONTROLLERS: Final = 2
OPERATIONS_UNKNOWN: Final = int32(-(2**31))


async def handle(context: Context, request: Request) -> DescribeClusterResponse:
    body: DescribeClusterRequest = request.body
    if body.endpoint_type == CONTROLLERS:
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
        controller_id=node(controller_for_clients(image, context.node_id, request.listener)),
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
            CLUSTER_OPERATIONS if body.include_cluster_authorized_operations else OPERATIONS_UNKNOWN
        ),
    )


def _refused(error: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, cluster_id="", brokers=()
    )
