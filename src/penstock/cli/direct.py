"""Requests that the client library has no name for, over a connection of their own with the broker's codecs."""

import struct
from typing import Any, Final

from penstock.actions.doctor import ANSWER_SIZE_MAX, read_exactly
from penstock.actions.connection import REQUEST_TIMEOUT_S, bootstrap_addresses, dial_secured, reach
from penstock.cli.errors import CommandError
from penstock.wire.codec import read_response, write_request
from penstock.wire.frame import parse_response_header, request_head

CLIENT_ID: Final = "penstock-cli"


def ask(bootstrap: str, api_key: int, version: int, request: Any) -> Any:
    """The answer of the first broker that is named, as an entity of the API's latest version."""
    reach(bootstrap)
    return ask_broker(*bootstrap_addresses(bootstrap)[0], api_key, version, request)


def ask_broker(host: str, port: int, api_key: int, version: int, request: Any) -> Any:
    body = write_request(api_key, version, request)
    try:
        with dial_secured(host, port) as sock:
            sock.settimeout(REQUEST_TIMEOUT_S)
            sock.sendall(request_head(api_key, version, 1, CLIENT_ID, len(body)) + body)
            (size,) = struct.unpack(">i", read_exactly(sock, 4))
            if not 0 < size <= ANSWER_SIZE_MAX:
                raise EOFError
            frame = memoryview(read_exactly(sock, size))
    except (OSError, EOFError):
        raise CommandError(f"{host}:{port} did not answer: 'penstock doctor' looks for the reason.") from None
    _, position = parse_response_header(api_key, version, frame)
    return read_response(api_key, version, frame[position:])
