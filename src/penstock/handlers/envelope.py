"""Envelope, version 0: a client's request that another node forwards to the active controller (KIP-590).

The response contains the frame for the client. A long request is decoded, answered and encoded in slices, as on the
node that the client is connected to. Goes to the handler of the request inside. Refuses: NOT_CONTROLLER,
so that the sender looks up the controller; INVALID_REQUEST for an API that is not forwarded or a malformed request;
PRINCIPAL_DESERIALIZATION_FAILURE.
"""

from functools import partial

from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR
from penstock.handlers.support.forwarding import address_text
from penstock.handlers.support.parts import answer_in_parts, is_long
from penstock.handlers.support.registry import COLD, is_loaded, loading
from penstock.handlers.support.reply import Encoded
from penstock.handlers.support.throttled import throttled
from penstock.security.principal import ANONYMOUS, InvalidPrincipal, decode_principal
from penstock.wire import codec
from penstock.wire.api import APIS
from penstock.wire.frame import MalformedRequest, parse_header, response_head

_SIZE_PREFIX = 4


async def handle(context: Context, request: Request) -> EnvelopeResponse:
    body: EnvelopeRequest = request.body
    if not context.quorum.is_active:
        return EnvelopeResponse(error_code=ErrorCode.not_controller)
    try:
        frame = memoryview(body.request_data)
        header = parse_header(frame)
        api = APIS[header.api_key]
        if not api.forwarded or not api.accepts(header.version):
            raise MalformedRequest("the API is not forwarded")
        if not is_loaded(header.api_key, header.version):
            await request.pace.finish(partial(loading, header.api_key, header.version))
        reading = partial(codec.reading_request, header.api_key, header.version, frame[header.body_position :])
        inner = await request.pace.finish(reading)
        # Nodes of an earlier version sent none.
        principal = ANONYMOUS if body.request_principal is None else decode_principal(body.request_principal)
    except MalformedRequest:
        return EnvelopeResponse(error_code=ErrorCode.invalid_request)
    except InvalidPrincipal:
        return EnvelopeResponse(error_code=ErrorCode.principal_deserialization_failure)
    if context.authorizer is not None:
        # The request is authorized as the client that sent it, not as the node that forwards it.
        header.rights = context.authorizer.rights(principal, address_text(body.client_host_address))
    table = context.throttle.table
    if table is not None:
        # Changes are charged here, where they are decided; the node that the client is connected to mutes it.
        header.client = table.client(
            principal.name, header.client_id, lambda api_key, seconds: None, context.clock.monotonic()
        )
    forwarded = Request(header, inner, request.connection, request.listener, request.pace, principal)
    handler = COLD[header.api_key]
    try:
        is_split = await is_long(forwarded)
    except MalformedRequest:
        return EnvelopeResponse(error_code=ErrorCode.invalid_request)
    answer = await (answer_in_parts(handler, context, forwarded) if is_split else handler(context, forwarded))
    if header.throttle_ms:
        answer = throttled(header, answer)
    assert not isinstance(answer, Encoded), "forwarded APIs have no hand-written response"
    written = await request.pace.finish(partial(codec.writing_response, header.api_key, header.version, answer))
    head = response_head(header.api_key, header.version, header.correlation_id, len(written))
    return EnvelopeResponse(response_data=head[_SIZE_PREFIX:] + written, error_code=NO_ERROR)
