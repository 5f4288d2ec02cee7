"""Gate that holds clients' requests until the node is ready, and lets requests of other nodes through.

A voter must answer the quorum before there is a controller to register with, on the same ports. Requests of clients
are held meanwhile and answered when the gate opens; their connections are not read until then. Goes to dispatch.py.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.handlers.fetch import METADATA_TOPIC
from penstock.handlers.support.reply import Parked, Parts
from penstock.handlers.support.transaction_verification import CloseConnection
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import MalformedRequest, parse_header
from penstock.wire.hot.fetch import read_request

if TYPE_CHECKING:
    from penstock.server.session import ClientSession

Dispatch = Callable[[memoryview, "ClientSession"], Parts | Parked]


class Gate:
    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._held: list[tuple[memoryview, ClientSession, Parked]] | None = []

    def dispatch(self, frame: memoryview, session: "ClientSession") -> Parts | Parked:
        if self._held is None or _is_between_nodes(frame):
            return self._dispatch(frame, session)
        parked = Parked()
        self._held.append((memoryview(bytearray(frame)), session, parked))
        return parked

    def open(self) -> None:
        """Answer the held requests in the order of their arrival."""
        held, self._held = self._held or [], None
        for frame, session, parked in held:
            if parked.on_ready is not None:
                self._answer(frame, session, parked)

    def _answer(self, frame: memoryview, session: "ClientSession", parked: Parked) -> None:
        try:
            reply = self._dispatch(frame, session)
        except (MalformedRequest, CloseConnection):
            parked.fail()
            return
        if not isinstance(reply, Parked):
            parked.ready(reply)
        elif reply.parts is not None:
            _pass_on(reply, parked)
        else:
            reply.on_ready = partial(_pass_on, reply, parked)


def _pass_on(reply: Parked, parked: Parked) -> None:
    assert reply.parts is not None, "the reply is ready"
    parked.failed = reply.failed
    parked.ready(reply.parts)


def _is_between_nodes(frame: memoryview) -> bool:
    header = parse_header(frame)
    if header.api_key != ApiKey.FETCH:
        api = APIS[header.api_key]
        # Nodes send ApiVersions first, and forward clients' requests to the controller.
        return api.between_nodes or api.forwarded or api.key == ApiKey.API_VERSIONS
    fetch = read_request(frame, header.body_position, header.version)
    partitions = fetch.partitions
    return fetch.replica_id >= 0 and bool(partitions) and partitions[0].topic == METADATA_TOPIC
