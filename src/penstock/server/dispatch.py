"""Dispatch of frames to handlers, and encoding of their responses.

Produce, Fetch, ShareFetch and OffsetCommit are called as plain functions with the frame itself. Other requests, and
those that such a function leaves, are decoded by wire/codec.py, answered by a coroutine, and encoded unless the
handler returns encoded parts.
A coroutine that never waits completes without a task. If any client has a quota, the request is charged and the
throttle time set in the response here (quotas/). Requests that cannot be decoded raise MalformedRequest; the
session then closes the connection.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from math import ceil
from types import coroutine
from typing import Any, NamedTuple

from penstock.handlers import share_fetch
from penstock.handlers.fetch import FetchHandler
from penstock.handlers.offset_commit import OffsetCommitHandler
from penstock.handlers.produce import ProduceHandler
from penstock.handlers.support.context import ColdHandler, Context, HotHandler, Request
from penstock.handlers.support.forwarding import address_bytes, is_for_this_node
from penstock.handlers.support.parts import answer_in_parts, is_long
from penstock.handlers.support.registry import COLD, is_loaded, loading
from penstock.handlers.support.reply import ColdReply, Encoded, Parked, Parts
from penstock.handlers.support.throttled import controller_throttle_ms, throttled
from penstock.handlers.support.transaction_verification import CloseConnection
from penstock.metrics.values import RequestMeter
from penstock.ports.instruments import Stopwatch
from penstock.ports.network import KeptFrame
from penstock.quotas.limits import Table
from penstock.scheduling.scheduler import ClientGone, Pace
from penstock.server.gate import Dispatch, Gate
from penstock.server.request_log import about
from penstock.server.session import ClientSession
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.disposal import disposing
from penstock.wire.frame import Header, MalformedRequest, parse_header, response_head

log = logging.getLogger(__name__)

TIME_THROTTLE_S_MAX = 1.0
"""The longest mute for excess request time per response, as in Kafka: time is a rough measure."""
NODE_CLIENT_ID_PREFIX = ("penstock-node-", "broker-")
"""The prefix of the client ids that nodes use among themselves."""
WHOLE_SIZE_MAX = 4 * 1024
"""A larger request is decoded in slices; it may have thousands of elements."""
FREED_WHOLE_SIZE_MAX = 64 * 1024
"""What was decoded from, or encoded to, more bytes than this is freed in slices."""
LONG_STEP_NS = 1_000_000
_SIZE_PREFIX = 4
_UNMEASURED = 15
"""How many of sixteen requests of a sampled API are counted but not timed."""


class _Hot(NamedTuple):
    """The handler of a hot API, and how it is measured."""

    handle: HotHandler
    is_sampled: bool
    """One request in sixteen is timed and represents the others: reading the clock would cost 4 % of a small write."""
    times_every_reply: bool
    """The time until the response is measured for every request, even if the rest is sampled."""


def _hot_handlers(context: Context, fetch: HotHandler) -> dict[tuple[int, int], _Hot]:
    """Return the hot handlers by API key and version."""
    by_key = {
        ApiKey.PRODUCE: _Hot(ProduceHandler(context).handle, is_sampled=True, times_every_reply=True),
        ApiKey.FETCH: _Hot(fetch, is_sampled=False, times_every_reply=True),
        ApiKey.OFFSET_COMMIT: _Hot(OffsetCommitHandler(context).handle, is_sampled=True, times_every_reply=False),
        ApiKey.SHARE_FETCH: _Hot(partial(share_fetch.handle_frame, context), is_sampled=True, times_every_reply=False),
    }
    return {
        (key, version): hot
        for key, hot in by_key.items()
        for version in range(APIS[key].max_version + 1)
        if APIS[key].accepts(version)
    }


class Dispatcher:
    def __init__(self, context: Context, stopwatch: Stopwatch, *, is_held: bool = False) -> None:
        """Create a dispatcher; with `is_held` it answers only requests of other nodes until `open` is called."""
        self._context = context
        self._clock = context.clock
        self._throttle = context.throttle
        self._stopwatch = stopwatch
        self._now_ns = stopwatch.now_ns
        self._meters = context.metrics.requests
        self._fetch_handler = FetchHandler(context)
        self._hot = _hot_handlers(context, self._fetch_handler.handle)
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_held: Callable[[int, str, int], None] | None = None
        """Called for steps of requests that blocked the event loop: API key, client id, nanoseconds."""
        self._relay = context.relay
        self._imports_later = context.scheduler.offloads
        self._gate: Gate | None = Gate(self._dispatch) if is_held else None
        self.dispatch: Dispatch = self._dispatch if self._gate is None else self._gate.dispatch

    def open(self) -> None:
        """Answer the requests that were held, and hold no more: the node is ready for clients."""
        gate, self._gate, self.dispatch = self._gate, None, self._dispatch
        if gate is not None:
            gate.open()

    def _dispatch(self, frame: memoryview, session: ClientSession) -> Parts | Parked:
        """Answer a frame and measure the time it takes; raise CloseConnection, or MalformedRequest without a header."""
        header = parse_header(frame)
        header.rights = session.rights
        key = header.api_key
        meter = self._meters[key]
        meter.count = count = meter.count + 1
        hot = self._hot.get((key, header.version))
        if hot is None or not (hot.is_sampled and count & _UNMEASURED) or self._throttle.table is not None:
            return self._measured(frame, header, session, meter, hot)
        try:
            reply = hot.handle(frame, header, session.listener, session.connection)
            if reply is None:
                return self._begin_cold(frame, header, session)
        except Exception as error:
            self._failed(header, session, error)
            raise CloseConnection from None
        if hot.times_every_reply and type(reply) is not list and isinstance(reply, Parked) and reply.parts is None:
            reply.on_answered = partial(self._answered, meter, self._stopwatch.turn_began)
        return reply

    def _measured(
        self, frame: memoryview, header: Header, session: ClientSession, meter: RequestMeter, hot: _Hot | None
    ) -> Parts | Parked:
        # Requests that arrive in one read are handled one after the other.
        turn_began = self._stopwatch.turn_began
        began = self._now_ns()
        try:
            if self._throttle.table is None:
                reply = self._handle(frame, header, session, hot)
            else:
                reply = self._within_quotas(frame, header, session, hot, self._throttle.table)
        except Exception as error:
            self._failed(header, session, error)
            raise CloseConnection from None
        ended = self._now_ns()
        weight = 1 + _UNMEASURED if hot is not None and hot.is_sampled and self._throttle.table is None else 1
        if isinstance(reply, Parked) and reply.parts is None:
            meter.parked_local.observe(ended - began, weight)
            until_answered = 1 if hot is not None and hot.times_every_reply else weight
            reply.on_answered = partial(self._answered, meter, turn_began, until_answered)
        else:
            meter.local.observe(ended - began, weight)
            meter.total.observe(ended - turn_began, weight)
        meter.queued_ns += (began - turn_began) * weight
        return reply

    def _answered(self, meter: RequestMeter, turn_began: int, weight: int = 1) -> None:
        meter.parked_total.observe(self._now_ns() - turn_began, weight)

    def _failed(self, header: Header, session: ClientSession, error: Exception) -> None:
        self._meters[header.api_key].failed += 1
        connection = session.connection
        where = connection.peer_host, connection.peer_port
        if isinstance(error, MalformedRequest):
            fields = about(header, connection)
            log.info("closing the connection from %s:%d: %s", *where, error, extra=fields)
        elif not isinstance(error, CloseConnection):
            fields = about(header, connection)
            log.error("closing the connection from %s:%d", *where, extra=fields, exc_info=error)

    def _handle(self, frame: memoryview, header: Header, session: ClientSession, hot: _Hot | None) -> Parts | Parked:
        reply = None if hot is None else hot.handle(frame, header, session.listener, session.connection)
        return self._begin_cold(frame, header, session) if reply is None else reply

    def _within_quotas(
        self, frame: memoryview, header: Header, session: ClientSession, hot: _Hot | None, table: Table
    ) -> Parts | Parked:
        """Handle a request of a client that may have quotas; the response says how long the client is muted.

        The cost of a request is known only after it is answered, so excess request time shows in the next response.
        """
        client = session.client
        if client is None or client.table is not table or client.client_id != header.client_id:
            client = session.client = self._throttle.client(table, header.client_id, session, session.principal.name)
        header.client = client
        now = self._clock.monotonic()
        wait = for_bytes = 0.0
        if client.produce is not None and header.api_key == ApiKey.PRODUCE:
            wait = for_bytes = client.produce.take(len(frame) + _SIZE_PREFIX, now)
        # Nodes of the cluster are not throttled for request time: every client would wait for them.
        is_node = session.connection.is_node and header.client_id.startswith(NODE_CLIENT_ID_PREFIX)
        timed = None if is_node else client.request
        if timed is not None:
            wait = max(for_bytes, min(timed.debt_s(now), TIME_THROTTLE_S_MAX))
        header.throttle_ms = ceil(wait * 1000)
        reply = self._handle(frame, header, session, hot)
        if timed is not None:
            then = self._clock.monotonic()
            timed.take(then - now, then)
            if not reply:
                wait = for_bytes  # without a response (acks=0) only bytes count
        if wait:
            client.mute(header.api_key, wait)
        return reply

    def _begin_cold(self, frame: memoryview, header: Header, session: ClientSession) -> Parked:
        parked = ColdReply()
        pace = Pace(self._context.scheduler, lambda: not parked.is_abandoned)
        self._check_version(header, session)
        if len(frame) > WHOLE_SIZE_MAX or (self._imports_later and not is_loaded(header.api_key, header.version)):
            answering = self._answer_later(session.connection.keep_frame(frame), header, session, pace, parked)
        else:
            request = Request(
                header, self._read(frame, header), session.connection, session.listener, pace, session.principal
            )
            answering = self._answer(frame, request, parked)
        try:
            # Most are answered before they wait for anything: a task would cost more than the answer.
            waits_for = answering.send(None)
        except StopIteration:
            return parked
        task = asyncio.get_running_loop().create_task(self._watched(answering, waits_for, header))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return parked

    def _check_version(self, header: Header, session: ClientSession) -> None:
        api = APIS[header.api_key]
        # With an authorizer, CLUSTER_ACTION is required, and a denial is answered.
        if api.is_for_nodes(header.version) and not session.connection.is_node and header.rights is None:
            raise MalformedRequest(f"{api.name} is only for nodes of the cluster, and the client is not one")
        if (api.hot or not api.accepts(header.version)) and header.api_key != ApiKey.API_VERSIONS:
            raise MalformedRequest(f"{api.name} version {header.version} is not supported")

    def _read(self, frame: memoryview, header: Header) -> Any:
        if not APIS[header.api_key].accepts(header.version):
            return None  # the ApiVersions handler answers any version (KIP-511)
        return codec.read_request(header.api_key, header.version, frame[header.body_position :])

    async def _answer_later(
        self, kept: KeptFrame, header: Header, session: ClientSession, pace: Pace, parked: ColdReply
    ) -> None:
        """Answer a request that takes long to decode, because it is large or the first of its API."""
        body: Any = None
        # A request that has arrived is executed, even if its client closes the connection right after sending it.
        reading = Pace(self._context.scheduler, lambda: True)
        try:
            if not is_loaded(header.api_key, header.version):
                await reading.finish(partial(loading, header.api_key, header.version))
            if APIS[header.api_key].accepts(header.version):
                view = kept.view[header.body_position :]
                body = await reading.finish(partial(codec.reading_request, header.api_key, header.version, view))
            request = Request(header, body, session.connection, session.listener, pace, session.principal)
            await self._answer(kept.view, request, parked)
        except ClientGone:
            return
        except Exception as error:
            self._failed(header, session, error)
            parked.fail()
        finally:
            if len(kept.view) > FREED_WHOLE_SIZE_MAX:
                self._context.scheduler.later(disposing(body))
            kept.release()

    async def _answer(self, frame: memoryview, request: Request, parked: ColdReply) -> None:
        """Answer a request on this node, or forward it to the active controller."""
        if APIS[request.header.api_key].forwarded and self._relay.is_needed and not is_for_this_node(request):
            await self._forward(bytes(frame), request, parked)
        else:
            await self._answer_here(COLD[request.header.api_key], request, parked)

    async def _forward(self, frame: bytes, request: Request, parked: ColdReply) -> None:
        address = address_bytes(request.connection.peer_host)
        answer = await self._relay.forward(frame, request.header.api_key, address, request.principal)
        if answer is None:
            await self._answer_here(COLD[request.header.api_key], request, parked)
        else:
            wait_ms = controller_throttle_ms(request.header, answer)
            if wait_ms and request.header.client is not None:
                request.header.client.mute(request.header.api_key, wait_ms / 1000)
            parked.ready((len(answer).to_bytes(4, "big"), answer))

    async def _answer_here(self, handler: ColdHandler, request: Request, parked: ColdReply) -> None:
        header = request.header
        try:
            if await is_long(request):
                answer = await answer_in_parts(handler, self._context, request)
            else:
                answer = await handler(self._context, request)
                if isinstance(answer, Parked):
                    parked.follow(answer)
                    return
            if header.throttle_ms:
                answer = throttled(header, answer)
            parts = answer.parts if type(answer) is Encoded else await self._encoded(header, answer, request.pace)
        except ClientGone:
            return
        except MalformedRequest as error:
            where = request.connection.peer_host, request.connection.peer_port
            log.info("closing the connection from %s:%d: %s", *where, error, extra=about(header, request.connection))
            parked.fail()
        except Exception:
            # Most responses have no field for a general error; closing the connection makes
            # the client retry, on another broker or later.
            self._meters[header.api_key].failed += 1
            log.exception("a request failed", extra=about(header, request.connection))
            parked.fail()
        else:
            parked.ready(parts)

    async def _encoded(self, header: Header, entity: Any, pace: Pace) -> Parts:
        # The response to an ApiVersions version that is not supported has version 0.
        version = header.version if APIS[header.api_key].accepts(header.version) else 0
        body = await pace.finish(partial(codec.writing_response, header.api_key, version, entity))
        if len(body) > FREED_WHOLE_SIZE_MAX:
            self._context.scheduler.later(disposing(entity))
        return response_head(header.api_key, version, header.correlation_id, len(body)), body

    async def _watched(self, begun: Coroutine[Any, Any, None], waits_for: Any, header: Header) -> None:
        """Run the rest of a coroutine that has reached its first wait, and time each of its steps."""
        # Since Python 3.12 a task accepts no generator. This frame, too, must not keep the future alive.
        steps = self._timed_steps(begun, waits_for, header)
        del begun, waits_for
        await steps

    @coroutine
    def _timed_steps(
        self, begun: Coroutine[Any, Any, None], waits_for: Any, header: Header
    ) -> Generator[Any, Any, None]:
        resume: Callable[[Any], Any]
        while True:
            try:
                value = yield waits_for
                resume = begun.send
            except BaseException as error:
                value, resume = error, begun.throw
            # An error refers to this frame: if the frame referred to the error, or to the future that has it, they and
            # what the request holds would live until a garbage collection.
            waits_for = None
            began = self._now_ns()
            self._stopwatch.mark_cpu(began)
            try:
                waits_for = resume(value)
            except StopIteration:
                return
            finally:
                value = None
                held = self._now_ns() - began
                if held > LONG_STEP_NS and self.on_held is not None:
                    self.on_held(header.api_key, header.client_id, held)

    def connection_lost(self, connection: object) -> None:
        """Report a closed connection: it may have carried the heartbeats of a broker, or a share session."""
        self._context.monitor.connection_lost(connection)
        self._context.shares.leader.connection_lost(connection)

    def stop(self) -> None:
        self._fetch_handler.deadlines.stop()
        for task in self._tasks:
            task.cancel()
