"""A clock that a test advances, running timers and tasks in between."""

import asyncio
import heapq
from collections.abc import Callable


class SteppedTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SteppedClock:
    def __init__(self) -> None:
        self._now = 1000.0
        self._count = 0
        self._timers: list[tuple[float, int, SteppedTimer]] = []

    def monotonic(self) -> float:
        return self._now

    def wall_ms(self) -> int:
        return int(self._now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> SteppedTimer:
        self._count += 1
        timer = SteppedTimer(callback)
        heapq.heappush(self._timers, (self._now + delay_s, self._count, timer))
        return timer

    def skip(self, seconds: float) -> None:
        """Advance time without running anything, as if the process were stopped."""
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Advance time; timers fire in order, and tasks run between them."""
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if timer.callback is not None:
                timer.callback()
                await settle()
        self._now = end


async def settle() -> None:
    """Run every task until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)
