"""Raw connections to a broker, for tests that send what no client would."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_response_header, request_head
from tests.support.ports import HOST


class RawClient:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def is_closed(self) -> bool:
        """Wait until the broker sends something or closes the connection; return whether it closed it."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def ask(self, api_key: int, version: int, request: Any) -> Any:
        """Return the response; None if the broker closes the connection."""
        body = codec.write_request(api_key, version, request)
        self.send(request_head(api_key, version, 1, "test", len(body)) + body)
        frame = self.frame()
        if frame is None:
            return None
        view = memoryview(frame)
        _, position = parse_response_header(api_key, version, view)
        return codec.read_response(api_key, version, view[position:])

    def frame(self) -> bytes | None:
        try:
            (size,) = struct.unpack(">i", self._exactly(4))
            return self._exactly(size)
        except (EOFError, ConnectionError):
            return None

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

        return self.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def token(self, data: bytes) -> Any:
        from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

        return self.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=data))
