"""The removal of expired delegation tokens while this node is the active controller.

A token that has expired is rejected everywhere, removed or not. Calls tokens.py and controller.py.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.controller.tokens import REMOVED_MAX, decide_remove_expired
from penstock.model.errors import Refusal

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings
    from penstock.controller.controller import Controller
    from penstock.ports.clock import Clock, Timer

AGAIN_S: Final = 1.0

log = logging.getLogger(__name__)


class TokenSweeper:
    def __init__(
        self, controller: "Controller", clock: "Clock", current_settings: "Callable[[], BrokerSettings]"
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._current_settings = current_settings
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._sweep())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _sweep(self) -> None:
        removed = 0
        try:
            if self._controller.image.tokens:
                now_ms = self._clock.wall_ms()
                tokens = await self._controller.run(lambda image: decide_remove_expired(image, now_ms))
                removed = len(tokens)
        except Refusal as refusal:
            log.warning("cannot remove expired delegation tokens now: %s", refusal)
        if removed:
            log.info("removed %d expired delegation tokens", removed)
        again_s = self._current_settings().integer("delegation.token.expiry.check.interval.ms") / 1000
        self._timer = self._clock.call_later(AGAIN_S if removed >= REMOVED_MAX else again_s, self.start)
