"""FindCoordinator, versions 0-6: which node coordinates a group or a transactional id.

v1 adds the key type, v4 many keys in one request, v6 share groups. The coordinator is the leader of
the key's partition of `__consumer_offsets` or `__transaction_state`. That topic is created on the first
request; the response is sent when it exists and the coordinator has loaded the key's partition. Goes to
groups/service.py and transactions/service.py. Refuses: INVALID_REQUEST for an unknown key type,
COORDINATOR_NOT_AVAILABLE while there is none, which clients retry; share groups have none for now.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from penstock.coordinator.keys import partition_of
from penstock.handlers.support.cluster_view import is_reachable
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, node
from penstock.handlers.support.topic_creation import ensure_topic
from penstock.model.ids import NO_NODE
from penstock.model.topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.wire.codec import response_class

MANY_KEYS_FROM: Final = 4
SHARE_FROM: Final = 6
GROUP, TRANSACTION, SHARE = range(3)
MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
}
"""Kafka's messages in the response to a single key."""


async def handle(context: Context, request: Request) -> Any:
    body: FindCoordinatorRequest = request.body
    version = request.header.version
    is_known = body.key_type in (GROUP, TRANSACTION) or (body.key_type == SHARE and version >= SHARE_FROM)
    keys = body.coordinator_keys
    if not is_known:
        message = "" if body.key_type == SHARE else MESSAGES[ErrorCode.invalid_request]
        found = [_none(key, ErrorCode.invalid_request, message) for key in keys]
    elif body.key_type == SHARE:
        found = [_none(key, _no_share_coordinator(key)) for key in keys]
    else:
        found = [await _find(context, request, key, body.key_type) for key in keys]
    if version >= MANY_KEYS_FROM:
        return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found))
    only = found[0]
    fields: dict[str, Any] = {
        "node_id": only.node_id,
        "host": only.host,
        "port": only.port,
        "error_code": only.error_code,
    }
    if version >= 1:
        fields |= {"throttle_time": NO_THROTTLE, "error_message": MESSAGES[only.error_code]}
    return response_class(request.header.api_key, version)(**fields)


async def _find(context: Context, request: Request, key: str, key_type: int) -> Coordinator:
    topic = await ensure_topic(context, CONSUMER_OFFSETS if key_type == GROUP else TRANSACTION_STATE)
    if topic is None:
        return _none(key, ErrorCode.coordinator_not_available)
    image = context.quorum.image
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    end_point = image.brokers[leader].end_point(request.listener) if leader in image.brokers else None
    if end_point is None or not is_reachable(image, leader, request.listener):
        return _none(key, ErrorCode.coordinator_not_available)
    if leader == context.node_id:
        # The client's next request is about the key, and would be answered with a retriable error.
        await (context.groups.loaded(key) if key_type == GROUP else context.transactions.loaded(key))
    return Coordinator(
        key=key,
        node_id=node(leader),
        host=end_point.host,
        port=int32(end_point.port),
        error_code=NO_ERROR,
        error_message="",
    )


def _no_share_coordinator(key: str) -> ErrorCode:
    # The state of a share group is stored for each of its partitions.
    if len(key.rsplit(":", 2)) != 3:
        return ErrorCode.invalid_request
    return ErrorCode.coordinator_not_available


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=node(NO_NODE), host="", port=int32(-1), error_code=error, error_message=message)
