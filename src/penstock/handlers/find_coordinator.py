"""FindCoordinator, versions 0-6: which node coordinates a group or a transactional id.

v1 brought the key type, v4 many keys in one request. Refuses: INVALID_REQUEST for an unknown
key type, COORDINATOR_NOT_AVAILABLE while there is no coordinator, which clients retry.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from penstock.handlers.context import Context, Request
from penstock.handlers.entities import NO_THROTTLE, int32, node
from penstock.model.ids import NO_NODE
from penstock.wire.codec import response_class

MANY_KEYS_FROM: Final = 4
KEY_TYPES: Final = (0, 1, 2)


async def handle(context: Context, request: Request) -> Any:
    body: FindCoordinatorRequest = request.body
    found = [_find(key, body.key_type) for key in body.coordinator_keys]
    version = request.header.version
    if version >= MANY_KEYS_FROM:
        return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found))
    only = found[0]
    fields = {"node_id": only.node_id, "host": only.host, "port": only.port, "error_code": only.error_code}
    if version >= 1:
        fields |= {"throttle_time": NO_THROTTLE, "error_message": only.error_message}
    return response_class(request.header.api_key, version)(**fields)


def _find(key: str, key_type: int) -> Coordinator:
    error = ErrorCode.coordinator_not_available if key_type in KEY_TYPES else ErrorCode.invalid_request
    return Coordinator(
        key=key, node_id=node(NO_NODE), host="", port=int32(-1), error_code=error, error_message=None
    )
