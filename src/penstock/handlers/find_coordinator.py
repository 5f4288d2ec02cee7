"""FindCoordinator, versions 0-6: which node coordinates a group or a transactional id.

v1 brought the key type, v4 many keys in one request, v6 share groups. The coordinator of a group is
the leader of the group's partition of `__consumer_offsets`, which is made when it is first asked
for; the answer leaves when it is there and the group's part of it has been read. Goes to
groups/service.py. Refuses: INVALID_REQUEST for an unknown key type, COORDINATOR_NOT_AVAILABLE while
there is none, which clients retry; for now that goes for transactions and share groups always.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from penstock.groups.service import partition_of
from penstock.handlers.cluster_view import is_reachable
from penstock.handlers.context import Context, Request
from penstock.handlers.creation import create_by_themselves
from penstock.handlers.entities import NO_ERROR, NO_THROTTLE, int32, node
from penstock.model.errors import Refusal
from penstock.model.ids import NO_NODE
from penstock.model.topic import CONSUMER_OFFSETS
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
"""What Kafka says beside a single answer."""


async def handle(context: Context, request: Request) -> Any:
    body: FindCoordinatorRequest = request.body
    version = request.header.version
    is_known = body.key_type in (GROUP, TRANSACTION) or (body.key_type == SHARE and version >= SHARE_FROM)
    keys = body.coordinator_keys
    if body.key_type == GROUP and keys:
        await _make_sure_of_topic(context)
    if not is_known:
        message = "" if body.key_type == SHARE else MESSAGES[ErrorCode.invalid_request]
        found = [_none(key, ErrorCode.invalid_request, message) for key in keys]
    elif body.key_type == GROUP:
        found = [await _find(context, request, key) for key in keys]
    else:
        found = [_none(key, _no_coordinator(body.key_type, key)) for key in keys]
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


async def _make_sure_of_topic(context: Context) -> None:
    if CONSUMER_OFFSETS not in context.quorum.image.topics:
        try:
            await create_by_themselves(context, [CONSUMER_OFFSETS])
        except Refusal:
            # It is not there afterwards, and that is what the answer says.
            return


async def _find(context: Context, request: Request, group_id: str) -> Coordinator:
    image = context.quorum.image
    topic = image.topics.get(CONSUMER_OFFSETS)
    if topic is None:
        return _none(group_id, ErrorCode.coordinator_not_available)
    leader = topic.partitions[partition_of(group_id, len(topic.partitions))].leader
    end_point = image.brokers[leader].end_point(request.listener) if leader in image.brokers else None
    if end_point is None or not is_reachable(image, leader, request.listener):
        return _none(group_id, ErrorCode.coordinator_not_available)
    if leader == context.node_id:
        # The client's next request is for the group: it would only be told to come again.
        await context.groups.loaded(group_id)
    return Coordinator(
        key=group_id,
        node_id=node(leader),
        host=end_point.host,
        port=int32(end_point.port),
        error_code=NO_ERROR,
        error_message="",
    )


def _no_coordinator(key_type: int, key: str) -> ErrorCode:
    # The state of a share group is kept for each of its partitions.
    if key_type == SHARE and len(key.rsplit(":", 2)) != 3:
        return ErrorCode.invalid_request
    return ErrorCode.coordinator_not_available


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=node(NO_NODE), host="", port=int32(-1), error_code=error, error_message=message)
