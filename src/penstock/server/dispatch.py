"""Which handler answers a frame, and how its answer becomes bytes.

Produce, Fetch and OffsetCommit are called as plain functions with the frame itself. Everything else is
decoded by wire/codec.py, answered by a coroutine, and encoded again unless the handler has done
so itself. A coroutine that never waits is done at once; only one that does becomes a task. What
cannot be read is refused with MalformedRequest; the session then closes the connection.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from penstock.handlers.context import ColdHandler, Context, Request
from penstock.handlers.fetch import FetchHandler
from penstock.handlers.offset_commit import OffsetCommitHandler
from penstock.handlers.produce import ProduceHandler
from penstock.handlers.reply import Encoded, Parked, Parts
from penstock.handlers.table import COLD
from penstock.ports.network import Connection
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import Header, MalformedRequest, parse_header, response_head

log = logging.getLogger(__name__)

_PRODUCE = ApiKey.PRODUCE
_FETCH = ApiKey.FETCH
_OFFSET_COMMIT = ApiKey.OFFSET_COMMIT
_PRODUCE_VERSIONS = range(APIS[_PRODUCE].accepted_from, APIS[_PRODUCE].max_version + 1)
_OFFSET_COMMIT_VERSIONS = range(APIS[_OFFSET_COMMIT].min_version, APIS[_OFFSET_COMMIT].max_version + 1)
_FETCH_VERSIONS = range(APIS[_FETCH].min_version, APIS[_FETCH].max_version + 1)


class Dispatcher:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._fetch_handler = FetchHandler(context)
        self._fetch = self._fetch_handler.handle
        self._produce = ProduceHandler(context).handle
        self._offset_commit = OffsetCommitHandler(context).handle
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatch(self, frame: memoryview, connection: Connection, listener: str) -> Parts | Parked:
        header = parse_header(frame)
        key = header.api_key
        if key == _PRODUCE and header.version in _PRODUCE_VERSIONS:
            return self._produce(frame, header)
        if key == _FETCH and header.version in _FETCH_VERSIONS:
            return self._fetch(frame, header)
        if key == _OFFSET_COMMIT and header.version in _OFFSET_COMMIT_VERSIONS:
            return self._offset_commit(frame, header)
        return self._begin_cold(frame, header, connection, listener)

    def _begin_cold(self, frame: memoryview, header: Header, connection: Connection, listener: str) -> Parked:
        request = Request(header, self._read(frame, header), connection, listener)
        parked = Parked()
        answering = self._answer(COLD[header.api_key], request, parked)
        try:
            # Most are answered before they would wait for anything: a task would cost more than the answer.
            waits_for = answering.send(None)
        except StopIteration:
            return parked
        task = asyncio.get_running_loop().create_task(_rest(answering, waits_for))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return parked

    def _read(self, frame: memoryview, header: Header) -> Any:
        api = APIS[header.api_key]
        if header.api_key in COLD and api.accepts(header.version):
            return codec.read_request(header.api_key, header.version, frame[header.body_position :])
        if header.api_key == ApiKey.API_VERSIONS:
            return None  # its handler answers any version (KIP-511)
        raise MalformedRequest(f"{api.name} has no version {header.version} here")

    async def _answer(self, handler: ColdHandler, request: Request, parked: Parked) -> None:
        header = request.header
        try:
            answer = await handler(self._context, request)
            parts = answer.parts if type(answer) is Encoded else _encoded(header, answer)
        except Exception:
            # There is no shape for an error of any kind in most replies; a closed connection makes
            # the client try again elsewhere or later.
            log.exception("%r from %s failed", header, request.connection.peer_host)
            parked.fail()
        else:
            parked.ready(parts)

    def stop(self) -> None:
        self._fetch_handler.deadlines.stop()
        for task in self._tasks:
            task.cancel()


@coroutine
def _rest(begun: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """What is left of a coroutine that has run up to the first thing it waits for."""
    resume: Callable[[Any], Any]
    while True:
        try:
            value = yield waits_for
            resume = begun.send
        except BaseException as error:
            value, resume = error, begun.throw
        try:
            waits_for = resume(value)
        except StopIteration:
            return


def _encoded(header: Header, entity: Any) -> Parts:
    # ApiVersions answers a version that it does not know in version 0.
    version = header.version if APIS[header.api_key].accepts(header.version) else 0
    body = codec.write_response(header.api_key, version, entity)
    return response_head(header.api_key, version, header.correlation_id, len(body)), body
