"""Protocols for requests to other nodes; requests and responses are entities of the API's latest version.

`peers.py` and `channel.py` implement them. Raises: PeerUnavailable if there is no response, PeerGone
if the peer's machine refuses the connection. A response with an error code is returned, not raised.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from penstock.model.errors import PenstockError
from penstock.model.ids import NodeId

T = TypeVar("T")

DEFAULT_PURPOSE: Final = "default"
"""The default purpose. Each purpose has its own connection, because responses arrive in the order of the requests."""


class PeerUnavailable(PenstockError):
    """No connection, no response in time, or a broken connection: whether the request had an effect is unknown."""


class PeerGone(PeerUnavailable):
    """The connection was refused: the peer's process is gone."""


class Peers(Protocol):
    def ask(
        self, node: NodeId, api_key: int, request: Any, *, timeout_s: float, purpose: str = DEFAULT_PURPOSE
    ) -> Awaitable[Any]:
        """Send a request to a broker of the metadata image; its response is an entity of the API's latest version."""
        ...

    def version(
        self, node: NodeId, api_key: int, *, timeout_s: float, purpose: str = DEFAULT_PURPOSE
    ) -> Awaitable[int]:
        """Return the highest version of the API that both sides support, for callers that encode their requests."""
        ...

    def ask_raw(
        self,
        node: NodeId,
        frame: bytearray,
        *,
        timeout_s: float,
        read: Callable[[memoryview], T],
        purpose: str = DEFAULT_PURPOSE,
    ) -> Awaitable[T]:
        """Send a request frame (header and body, no size; the correlation id is filled in) and decode the response.

        `read` is called with the whole frame while it is still in the port's buffer, so it must copy what it keeps.
        This method returns what `read` returns, and raises what it raises.
        """
        ...

    def probe(self, node: NodeId, *, timeout_s: float) -> Awaitable[None]:
        """Return if the peer's machine accepts a connection; raise PeerGone if it refuses."""
        ...


class ControllerChannel(Protocol):
    def ask(self, api_key: int, request: Any, *, timeout_s: float) -> Awaitable[Any]:
        """Send a request to the active controller, local or remote; repeat it on NOT_CONTROLLER until the timeout."""
        ...
