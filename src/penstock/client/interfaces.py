"""What the parts of a node need to ask other nodes: requests and answers as entities of the latest version.

Protocols only; `peers.py` and `channel.py` hold the connections. Raises: PeerUnavailable when no answer can be had,
PeerGone when the peer's machine says that nobody listens there. An answer with an error code is an answer.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from penstock.model.errors import PenstockError
from penstock.model.ids import NodeId

T = TypeVar("T")

ASKING: Final = "asking"
"""The purpose of what has none of its own. Each purpose is a connection: answers come in the order of the questions."""


class PeerUnavailable(PenstockError):
    """No connection, no answer in time, or the connection broke: whether the request had an effect is unknown."""


class PeerGone(PeerUnavailable):
    """Nobody listens where the peer was: its process is gone."""


class Peers(Protocol):
    def ask(
        self, node: NodeId, api_key: int, request: Any, *, timeout_s: float, purpose: str = ASKING
    ) -> Awaitable[Any]:
        """Ask a broker of the metadata image; its answer is an entity of the API's latest version."""
        ...

    def version(self, node: NodeId, api_key: int, *, timeout_s: float, purpose: str = ASKING) -> Awaitable[int]:
        """The highest version of the API that both sides know; for who writes requests by hand."""
        ...

    def ask_raw(
        self,
        node: NodeId,
        frame: bytearray,
        *,
        timeout_s: float,
        read: Callable[[memoryview], T],
        purpose: str = ASKING,
    ) -> Awaitable[T]:
        """Send a request frame (header and body, no size; the correlation id is put in) and read the answer's frame.

        `read` is called with the whole frame while it is still in the port's buffer: what is kept must be copied.
        What it returns is the answer, and what it raises is raised.
        """
        ...

    def probe(self, node: NodeId, *, timeout_s: float) -> Awaitable[None]:
        """Return if the peer's machine takes a connection; PeerGone if nobody listens there."""
        ...


class ControllerChannel(Protocol):
    def ask(self, api_key: int, request: Any, *, timeout_s: float) -> Awaitable[Any]:
        """Ask the active controller, wherever it is; on NOT_CONTROLLER ask again until the time is over."""
        ...
