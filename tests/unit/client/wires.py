"""An in-memory network: connections reach a server of the test, or are refused."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from struct import Struct
from typing import Any

from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from penstock.client.peers import Peers
from penstock.ports.network import KeptFrame, Limits, Listener, Opened, Part, Session, copied
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import Header, parse_header, response_head
from tests.unit.metadata.world import TestClock

_INT32 = Struct(">i")
Answer = Callable[[Header, Any], Any]


class Wire:
    """One end of a connection; the other is a server that answers with the test's responses, or not at all."""

    def __init__(self, server: "WireServer") -> None:
        self.peer_host, self.peer_port, self.local_port = "wire", 1, 2
        self.server = server
        self.is_node = True
        self.peer_certificate: bytes | None = None
        self.session: Session | None = None
        self.closed = False

    def limit_frames(self, size_max: int | None) -> None: ...

    def send(self, parts: Sequence[Part]) -> None:
        data = bytearray().join(bytes(part) for part in parts)  # type: ignore[arg-type]
        (size,) = _INT32.unpack_from(data)
        assert size == len(data) - 4
        asyncio.get_running_loop().call_soon(self.server.receive, self, memoryview(data)[4:])

    send_now = send

    def keep_frame(self, frame: memoryview) -> KeptFrame:
        return copied(frame)

    def deliver(self, head_and_body: bytes) -> None:
        assert self.session is not None
        self.session.frame(memoryview(bytearray(head_and_body[4:])))

    def close(self) -> None:
        self.break_off(None)

    def break_off(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self.server.wires.remove(self)
            if self.session is not None:
                self.session.lost(error)

    def pause_frames(self) -> None: ...

    def resume_frames(self) -> None: ...


class WireServer:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.wires: list[Wire] = []
        self.requests: list[Header] = []
        self.greets = True
        self.most: dict[int, int] = {}

    def receive(self, wire: Wire, frame: memoryview) -> None:
        header = parse_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            if self.greets:
                self.reply(wire, header, self._versions())
            return
        self.requests.append(header)
        body = codec.read_request(header.api_key, header.version, frame[header.body_position :])
        answer = self.answer(header, body)
        if answer is not None:
            self.reply(wire, header, answer)

    def reply(self, wire: Wire, header: Header, entity: Any) -> None:
        body = codec.write_response(header.api_key, header.version, entity)
        wire.deliver(response_head(header.api_key, header.version, header.correlation_id, len(body)) + body)

    def _versions(self) -> ApiVersionsResponse:
        rows = tuple(
            ApiVersion(
                api_key=i16(api.key),
                min_version=i16(api.min_version),
                max_version=i16(self.most.get(api.key, api.max_version)),
            )
            for api in APIS.values()
        )
        return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=rows)


class WireNetwork:
    def __init__(self) -> None:
        self.servers: dict[tuple[str, int], WireServer] = {}
        self.dialled = 0

    def limit(self, limits: Limits) -> None: ...

    def listen(self, host: str, port: int) -> Listener:
        raise NotImplementedError

    def connect(self, host: str, port: int, opened: Opened) -> None:
        self.dialled += 1
        asyncio.get_running_loop().call_soon(self._open, host, port, opened)

    def _open(self, host: str, port: int, opened: Opened) -> None:
        server = self.servers.get((host, port))
        if server is None:
            opened(ConnectionRefusedError("connection refused"))
            return
        wire = Wire(server)
        session = opened(wire)
        if session is not None:
            server.wires.append(wire)
            wire.session = session


def make_peers(network: WireNetwork, clock: TestClock) -> Peers:
    """Return peers where node n has the address ("node", n), and node 99 is unknown."""
    return Peers(
        network=network,
        clock=clock,
        random=Random(1),
        address_of=lambda node: None if node == 99 else ("node", node),
        client_id="test",
    )
