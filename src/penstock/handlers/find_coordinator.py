"""FindCoordinator, versions 0-6: which node coordinates a group or a transactional id.

v1 adds the key type, v4 many keys in one request, v6 share groups. The coordinator is the leader of the key's
partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state`. That topic is created on the first
request; the response is sent when it exists and the coordinator has loaded the key's partition. Goes to
groups/service.py, transactions/service.py and shares/service.py. Refuses: INVALID_REQUEST for an unknown key type or
an invalid key of a share group, COORDINATOR_NOT_AVAILABLE while there is none, which clients retry.
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
from penstock.model.acl import Operation
from penstock.model.ids import NO_NODE
from penstock.model.topic import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.shares.keys import parse_key
from penstock.wire.codec import response_class

MANY_KEYS_FROM: Final = 4
SHARE_FROM: Final = 6
GROUP, TRANSACTION, SHARE = range(3)
TOPICS: Final = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}
MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
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


def _denial(request: Request, key: str, key_type: int) -> ErrorCode | None:
    """Return the error for a key that the client may not see."""
    if key_type == GROUP:
        allowed = request.may_on_group(Operation.DESCRIBE, key)
        return None if allowed else ErrorCode.group_authorization_failed
    if key_type == TRANSACTION:
        allowed = request.may_on_transactional_id(Operation.DESCRIBE, key)
        return None if allowed else ErrorCode.transactional_id_authorization_failed
    return None if request.may_on_cluster(Operation.CLUSTER_ACTION) else ErrorCode.cluster_authorization_failed


async def _find(context: Context, request: Request, key: str, key_type: int) -> Coordinator:
    denial = _denial(request, key, key_type)
    if denial is not None:
        return _none(key, denial, MESSAGES[denial] if key_type == SHARE else "")
    if key_type == SHARE and parse_key(key) is None:
        return _none(key, ErrorCode.invalid_request)
    topic = await ensure_topic(context, TOPICS[key_type])
    if topic is None:
        return _none(key, ErrorCode.coordinator_not_available)
    image = context.quorum.image
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    end_point = image.brokers[leader].end_point(request.listener) if leader in image.brokers else None
    if end_point is None or not is_reachable(image, leader, request.listener):
        return _none(key, ErrorCode.coordinator_not_available)
    if leader == context.node_id:
        # The client's next request is about the key, and would be answered with a retriable error.
        await _loaded(context, key, key_type)
    return Coordinator(
        key=key,
        node_id=node(leader),
        host=end_point.host,
        port=int32(end_point.port),
        error_code=NO_ERROR,
        error_message="",
    )


async def _loaded(context: Context, key: str, key_type: int) -> None:
    if key_type == GROUP:
        await context.groups.loaded(key)
    elif key_type == TRANSACTION:
        await context.transactions.loaded(key)
    else:
        await context.shares.coordinator.loaded(key)


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=node(NO_NODE), host="", port=int32(-1), error_code=error, error_message=message)
