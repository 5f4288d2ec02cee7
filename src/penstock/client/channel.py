"""Requests to the active controller, in this process or in another.

The quorum knows which node is the active controller; while it does not, requests wait and try again. A request is
repeated, on another node or later, if the response is NOT_CONTROLLER or does not arrive, until its timeout. It must
therefore be safe to execute twice. Goes to `peers.py`, or to the local handler as a call. Raises: PeerUnavailable.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.model.errors import NotController
from penstock.model.ids import NodeId
from penstock.ports.clock import Clock

PURPOSE: Final = "controller"
PAUSE_S: Final = 0.02
# A controller that has not answered for this long may have been replaced.
ATTEMPT_S_MAX: Final = 2.0

Local = Callable[[int, Any], Awaitable[Any]]


class ControllerChannel:
    def __init__(
        self, *, node_id: NodeId, peers: Peers, clock: Clock, leader: Callable[[], NodeId | None], local: Local
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self._clock = clock
        self._leader = leader
        self._local = local

    async def ask(
        self,
        api_key: int,
        request: Any,
        *,
        timeout_s: float,
        purpose: str = PURPOSE,
        attempt_s_max: float = ATTEMPT_S_MAX,
    ) -> Any:
        deadline = self._clock.monotonic() + timeout_s
        problem = "no controller is known"
        while True:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise PeerUnavailable(f"the active controller has not answered: {problem}")
            leader = self._leader()
            try:
                if leader is not None:
                    answer = await self._ask_once(leader, api_key, request, min(left, attempt_s_max), purpose)
                    if not says_not_controller(answer):
                        return answer
                    problem = f"node {leader} is not the controller"
            except (PeerUnavailable, NotController) as error:
                problem = str(error)
            await pause(self._clock, min(PAUSE_S, left))

    async def _ask_once(self, leader: NodeId, api_key: int, request: Any, timeout_s: float, purpose: str) -> Any:
        if leader == self._node_id:
            return await self._local(api_key, request)
        return await self._peers.ask(leader, api_key, request, timeout_s=timeout_s, purpose=purpose)


def says_not_controller(answer: Any) -> bool:
    """Return whether the response, or a part of it, contains NOT_CONTROLLER."""
    if hasattr(answer, "error_code"):
        return bool(answer.error_code == NotController.code)
    return any(
        part.error_code == NotController.code
        for name in type(answer).__dataclass_fields__
        if isinstance(parts := getattr(answer, name), tuple)
        for part in parts
        if hasattr(part, "error_code")
    )


async def pause(clock: Clock, seconds: float) -> None:
    """Wait by the clock port."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not over.done():
            over.set_result(None)

    timer = clock.call_later(seconds, wake)
    try:
        await over
    finally:
        timer.cancel()
