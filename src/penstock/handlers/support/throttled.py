"""Quotas in responses: the throttle time, and the cost of a fetch or a change.

Responses that are entities are rebuilt with the throttle time; encoded ones have it as the
first field of their body, in the versions that have it. Goes to quotas/. Refuses: ThrottlingQuotaExceeded
for a change to topics, if the version of the request supports that error (KIP-599).
"""

from dataclasses import replace
from math import ceil
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from penstock.handlers.support.entities import milliseconds
from penstock.handlers.support.reply import Encoded
from penstock.model.errors import ThrottlingQuotaExceeded
from penstock.wire.api import ApiKey
from penstock.wire.frame import has_flexible_response_header

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context, Request
    from penstock.ports.clock import Clock
    from penstock.quotas.limits import Client
    from penstock.wire.frame import Header

_THROTTLE_TIME_FROM: Final = {
    ApiKey.METADATA: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.HEARTBEAT: 1,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
}
"""The first version whose hand-written responses begin with the throttle time."""
_CHARGED: Final = {ApiKey.CREATE_TOPICS: 2, ApiKey.DELETE_TOPICS: 1, ApiKey.CREATE_PARTITIONS: 0}
"""Changes that a quota counts, and the first version whose responses begin with the throttle time."""
_HEAD_SIZE: Final = 8
_SIZE_PREFIX: Final = 4
_pack_time: Final = Struct(">i").pack

STRICT_CREATE_TOPICS_FROM: Final = 6
STRICT_DELETE_TOPICS_FROM: Final = 5
STRICT_CREATE_PARTITIONS_FROM: Final = 3


def throttle_ms(wait_s: float) -> int:
    return ceil(wait_s * 1000)


def throttled(header: "Header", answer: Any) -> Any:
    """Return the response of a cold handler with the throttle time set."""
    if not isinstance(answer, Encoded):
        return replace(answer, throttle_time=milliseconds(header.throttle_ms))
    first_version = _THROTTLE_TIME_FROM.get(header.api_key)
    if first_version is None or header.version < first_version:
        return answer
    first = bytearray(answer.parts[0])  # type: ignore[arg-type]
    position = _HEAD_SIZE + has_flexible_response_header(header.api_key, header.version)
    first[position : position + 4] = _pack_time(header.throttle_ms)
    return Encoded((first, *answer.parts[1:]))


def controller_throttle_ms(header: "Header", frame: bytes) -> int:
    """Return the throttle time in ms that the active controller has set in the response to a forwarded request."""
    if header.api_key not in _CHARGED or header.version < _CHARGED[header.api_key]:
        return 0
    position = _HEAD_SIZE - _SIZE_PREFIX + has_flexible_response_header(header.api_key, header.version)
    return int.from_bytes(frame[position : position + 4], "big")


def charge_fetch(client: "Client", size: int, clock: "Clock", *, api_key: int = ApiKey.FETCH) -> float:
    """Charge the bytes to the client's quota; mute the client, and return for how many seconds."""
    assert client.fetch is not None, "only a client with a quota is charged"
    wait = client.fetch.take(size, clock.monotonic())
    if wait:
        client.mute(api_key, wait)
    return wait


class Mutations:
    """The topic changes of one request: each partition created or deleted counts as one."""

    def __init__(self, context: "Context", request: "Request", *, strict_from: int) -> None:
        header = request.header
        self._header = header
        self._clock = context.clock
        self._bucket = None if header.client is None else header.client.mutation
        self._strict = header.version >= strict_from

    def charge(self, count: int) -> None:
        """Charge changes to the client's quota; requests of old versions are only slowed down."""
        if self._bucket is None:
            return
        now = self._clock.monotonic()
        wait = self._bucket.debt_s(now)
        refused = self._strict and wait > 0
        if not refused:
            wait = self._bucket.take(count, now)
        if wait and (refused or not self._strict):
            assert self._header.client is not None
            self._header.throttle_ms = max(self._header.throttle_ms, throttle_ms(wait))
            self._header.client.mute(self._header.api_key, wait)
        if refused:
            raise ThrottlingQuotaExceeded
