"""Requests of this node to itself: calls the handler as if the request had arrived on a connection.

The active controller may be in the same process as the broker that sends it a request. Goes to registry.py.
Refuses nothing.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.registry import COLD, is_loaded, loading
from penstock.scheduling.scheduler import Pace
from penstock.wire.api import APIS
from penstock.wire.frame import Header

if TYPE_CHECKING:
    from penstock.ports.network import KeptFrame, Part

CLIENT_ID: Final = "local"


class _NoConnection:
    """A connection to this node itself: nothing is ever sent over it, and it never breaks."""

    peer_host = "localhost"
    peer_port = 0
    local_port = 0
    is_node = True
    peer_certificate = None

    def send(self, parts: "Sequence[Part]") -> None:
        raise AssertionError("the response is returned, not sent")

    send_now = send

    def keep_frame(self, frame: memoryview) -> "KeptFrame":
        raise AssertionError("local requests have no frame")

    def pause_frames(self) -> None: ...

    def resume_frames(self) -> None: ...

    def limit_frames(self, size_max: int | None) -> None: ...

    def close(self) -> None: ...


_HERE: Final = _NoConnection()


async def answer_locally(context: Context, api_key: int, request: Any) -> Any:
    """Answer an entity of the API's latest version with another one."""
    version = APIS[api_key].max_version
    if context.scheduler.offloads and not is_loaded(api_key, version):
        await Pace(context.scheduler, lambda: True).finish(partial(loading, api_key, version))
    header = Header(api_key, version, 0, CLIENT_ID, 0)
    return await COLD[api_key](context, Request(header, request, _HERE))
