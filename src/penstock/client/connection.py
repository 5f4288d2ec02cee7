"""One connection to a peer: questions out, answers matched by correlation id, many under way at once.

Begins with ApiVersions; each request goes in the highest version that both sides know. A question that is not
answered in time fails alone, unless the peer has been silent since it was asked: then the connection is given up,
for TCP may need minutes to notice that the way is open again. Made by `peers.py`. Raises: PeerUnavailable.
"""

import asyncio
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from penstock.client.interfaces import PeerUnavailable
from penstock.ports.clock import Clock, Timer
from penstock.ports.network import Connection
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import MalformedRequest, parse_response_header, request_head

T = TypeVar("T")

_INT32: Final = Struct(">i")
_CORRELATION_POSITION: Final = 4
_SIZE_PREFIX: Final = 4
# Every server answers this one; what it lacks is only asked for by clients that want to be counted.
_API_VERSIONS_VERSION: Final = 0


class _Question(NamedTuple):
    answer: "asyncio.Future[Any]"
    read: Callable[[memoryview], Any]
    timer: Timer


class PeerConnection:
    def __init__(self, connection: Connection, clock: Clock, *, client_id: str, on_lost: Callable[[], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._client_id = client_id
        self._on_lost = on_lost
        self._questions: dict[int, _Question] = {}
        self._next_correlation_id = 0
        self._heard_at = clock.monotonic()
        self._lost = False
        self._versions: Mapping[int, tuple[int, int]] = {}

    @property
    def is_lost(self) -> bool:
        return self._lost

    def greet(self, *, timeout_s: float) -> "asyncio.Future[None]":
        """Ask what the peer serves: before that, nothing else can be asked."""
        key, version = ApiKey.API_VERSIONS, _API_VERSIONS_VERSION
        frame = bytearray(request_head(key, version, 0, self._client_id, 0))[_SIZE_PREFIX:]
        return self.ask_raw(frame, read=self._read_versions, timeout_s=timeout_s)

    def _read_versions(self, frame: memoryview) -> None:
        answer = _read_answer(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, frame)
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def version(self, api_key: int) -> int:
        """The highest version that both sides know; PeerUnavailable if there is none."""
        api = APIS[api_key]
        least, most = self._versions.get(api_key, (0, -1))
        version = min(most, api.max_version)
        if version < least or not api.accepts(version):
            raise PeerUnavailable(
                f"{self._connection.peer_host}:{self._connection.peer_port} serves no {api.name} that is known here"
            )
        return version

    def ask(self, api_key: int, request: Any, *, timeout_s: float) -> "asyncio.Future[Any]":
        """Send an entity of the API's latest version; the answer is one too."""
        version = self.version(api_key)
        body = codec.write_request(api_key, version, request)
        frame = bytearray(request_head(api_key, version, 0, self._client_id, len(body)))[_SIZE_PREFIX:] + body
        return self.ask_raw(frame, read=lambda answer: _read_answer(api_key, version, answer), timeout_s=timeout_s)

    def ask_raw(self, frame: bytearray, *, read: Callable[[memoryview], T], timeout_s: float) -> "asyncio.Future[T]":
        """Send a frame, put the correlation id into it; `read` makes the answer out of the frame that comes back."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # Whoever asked may have given up by the time the connection breaks.
        answer.add_done_callback(_look_at)
        if self._lost:
            answer.set_exception(PeerUnavailable("the connection is closed"))
            return answer
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        _INT32.pack_into(frame, _CORRELATION_POSITION, correlation_id)
        asked_at = self._clock.monotonic()
        timer = self._clock.call_later(timeout_s, lambda: self._time_is_over(correlation_id, asked_at))
        self._questions[correlation_id] = _Question(answer, read, timer)
        self._connection.send((_INT32.pack(len(frame)), frame))
        return answer

    def close(self) -> None:
        self._connection.close()

    # -- what the port tells ---------------------------------------------------------------

    def frame(self, frame: memoryview) -> None:
        self._heard_at = self._clock.monotonic()
        if len(frame) < _INT32.size:
            self._connection.close()
            return
        question = self._questions.pop(_INT32.unpack_from(frame)[0], None)
        if question is None:
            return  # too late
        question.timer.cancel()
        if question.answer.done():
            return  # nobody waits any more
        try:
            answer = question.read(frame)
        except Exception as error:
            question.answer.set_exception(error)
        else:
            question.answer.set_result(answer)

    def lost(self, error: Exception | None) -> None:
        self._lost = True
        questions, self._questions = self._questions, {}
        self._on_lost()
        for question in questions.values():
            question.timer.cancel()
            if not question.answer.done():
                question.answer.set_exception(PeerUnavailable(f"the connection broke: {error or 'closed by the peer'}"))

    def _time_is_over(self, correlation_id: int, asked_at: float) -> None:
        question = self._questions.pop(correlation_id, None)
        if question is None:
            return
        if not question.answer.done():
            question.answer.set_exception(PeerUnavailable("no answer in time"))
        if self._heard_at <= asked_at:
            self._connection.close()


def _read_answer(api_key: int, version: int, frame: memoryview) -> Any:
    try:
        _, position = parse_response_header(api_key, version, frame)
        return codec.read_response(api_key, version, frame[position:])
    except MalformedRequest as problem:
        raise PeerUnavailable(f"the answer cannot be read: {problem}") from problem


def _look_at(outcome: "asyncio.Future[Any]") -> None:
    if not outcome.cancelled():
        outcome.exception()
