"""One connection to a peer: sends requests, matches responses by correlation id, with many requests in flight.

Begins with ApiVersions; each request uses the highest version that both sides support. A request that is not answered
in time fails alone, unless the peer has sent nothing since: then the connection is closed, because
TCP may need minutes to notice that the network works again. Created by `peers.py`. Raises: PeerUnavailable.
"""

import asyncio
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from penstock.client.interfaces import PeerUnavailable
from penstock.client.waiting import retrieve_exception
from penstock.ports.clock import Clock, Timer
from penstock.ports.network import Connection
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import MalformedRequest, parse_response_header, request_head

T = TypeVar("T")

_INT32: Final = Struct(">i")
_CORRELATION_POSITION: Final = 4
_SIZE_PREFIX: Final = 4
# Every server supports this version; later ones only add the client's software name and version.
_API_VERSIONS_VERSION: Final = 0


class _PendingRequest(NamedTuple):
    answer: "asyncio.Future[Any]"
    read: Callable[[memoryview], Any]
    timer: Timer


class PeerConnection:
    def __init__(self, connection: Connection, clock: Clock, *, client_id: str, on_lost: Callable[[], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._client_id = client_id
        self._on_lost = on_lost
        self._in_flight: dict[int, _PendingRequest] = {}
        self._next_correlation_id = 0
        self._received_at = clock.monotonic()
        self._lost = False
        self._versions: Mapping[int, tuple[int, int]] = {}

    @property
    def is_lost(self) -> bool:
        return self._lost

    def greet(self, *, timeout_s: float) -> "asyncio.Future[None]":
        """Send ApiVersions, which must be answered before any other request can be sent."""
        key, version = ApiKey.API_VERSIONS, _API_VERSIONS_VERSION
        frame = bytearray(request_head(key, version, 0, self._client_id, 0))[_SIZE_PREFIX:]
        return self.ask_raw(frame, read=self._read_versions, timeout_s=timeout_s)

    def _read_versions(self, frame: memoryview) -> None:
        answer = _read_answer(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, frame)
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def version(self, api_key: int) -> int:
        """Return the highest version that both sides support; raise PeerUnavailable if there is none."""
        api = APIS[api_key]
        least, most = self._versions.get(api_key, (0, -1))
        version = min(most, api.max_version)
        if version < least or not api.accepts(version):
            raise PeerUnavailable(
                f"{self._connection.peer_host}:{self._connection.peer_port} shares no {api.name} version with this node"
            )
        return version

    def ask(self, api_key: int, request: Any, *, timeout_s: float) -> "asyncio.Future[Any]":
        """Send a request, an entity of the API's latest version; the response is one too."""
        version = self.version(api_key)
        body = codec.write_request(api_key, version, request)
        frame = bytearray(request_head(api_key, version, 0, self._client_id, len(body)))[_SIZE_PREFIX:] + body
        return self.ask_raw(frame, read=lambda answer: _read_answer(api_key, version, answer), timeout_s=timeout_s)

    def ask_raw(self, frame: bytearray, *, read: Callable[[memoryview], T], timeout_s: float) -> "asyncio.Future[T]":
        """Send a frame with the correlation id filled in; `read` decodes the frame of the response."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # The caller may have stopped waiting by the time the connection breaks.
        answer.add_done_callback(retrieve_exception)
        if self._lost:
            answer.set_exception(PeerUnavailable("the connection is closed"))
            return answer
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        _INT32.pack_into(frame, _CORRELATION_POSITION, correlation_id)
        sent_at = self._clock.monotonic()
        timer = self._clock.call_later(timeout_s, lambda: self._timed_out(correlation_id, sent_at))
        self._in_flight[correlation_id] = _PendingRequest(answer, read, timer)
        self._connection.send((_INT32.pack(len(frame)), frame))
        return answer

    def close(self) -> None:
        self._connection.close()

    # -- called by the port ----------------------------------------------------------------

    def frame(self, frame: memoryview) -> None:
        self._received_at = self._clock.monotonic()
        if len(frame) < _INT32.size:
            self._connection.close()
            return
        pending = self._in_flight.pop(_INT32.unpack_from(frame)[0], None)
        if pending is None:
            return  # the request has timed out
        pending.timer.cancel()
        if pending.answer.done():
            return  # the caller stopped waiting
        try:
            answer = pending.read(frame)
        except Exception as error:
            pending.answer.set_exception(error)
        else:
            pending.answer.set_result(answer)

    def lost(self, error: Exception | None) -> None:
        self._lost = True
        pending_requests, self._in_flight = self._in_flight, {}
        self._on_lost()
        for pending in pending_requests.values():
            pending.timer.cancel()
            if not pending.answer.done():
                pending.answer.set_exception(PeerUnavailable(f"the connection broke: {error or 'closed by the peer'}"))

    def _timed_out(self, correlation_id: int, sent_at: float) -> None:
        pending = self._in_flight.pop(correlation_id, None)
        if pending is None:
            return
        if not pending.answer.done():
            pending.answer.set_exception(PeerUnavailable("no response within the timeout"))
        if self._received_at <= sent_at:
            self._connection.close()


def _read_answer(api_key: int, version: int, frame: memoryview) -> Any:
    try:
        _, position = parse_response_header(api_key, version, frame)
        return codec.read_response(api_key, version, frame[position:])
    except MalformedRequest as problem:
        raise PeerUnavailable(f"cannot decode the response: {problem}") from problem
