"""The clock of the operating system."""

import asyncio
import time
from collections.abc import Callable

from penstock.ports.clock import Timer


class RealClock:
    # Called several times for every request: the function itself, without a wrapper.
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)
