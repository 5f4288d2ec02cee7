"""What the parts of a node need to ask other nodes: requests and answers as entities of the latest version.

Protocols only; `peers.py` and `channel.py` hold the connections. Raises: PeerUnavailable when no answer can be had,
PeerGone when the peer's machine says that nobody listens there. An answer with an error code is an answer.
"""

from collections.abc import Awaitable
from typing import Any, Protocol

from penstock.model.errors import PenstockError
from penstock.model.ids import NodeId


class PeerUnavailable(PenstockError):
    """No connection, no answer in time, or the connection broke: whether the request had an effect is unknown."""


class PeerGone(PeerUnavailable):
    """Nobody listens where the peer was: its process is gone."""


class Peers(Protocol):
    def ask(self, node: NodeId, api_key: int, request: Any, *, timeout_s: float) -> Awaitable[Any]:
        """Ask a broker of the metadata image; its answer is an entity of the API's latest version."""
        ...


class ControllerChannel(Protocol):
    def ask(self, api_key: int, request: Any, *, timeout_s: float) -> Awaitable[Any]:
        """Ask the active controller, wherever it is; on NOT_CONTROLLER ask again until the time is over."""
        ...
