"""Named timers over the clock port, optimized for frequent moves.

Heartbeats move a member's deadline thousands of times before it ever passes, so moving
a timer later only records the new deadline, which is checked when the timer fires.
"""

from collections.abc import Callable, Hashable

from penstock.ports.clock import Clock, Timer


class Timers:
    def __init__(self, clock: Clock, fired: Callable[[Hashable], None]) -> None:
        self._clock = clock
        self._fired = fired
        self._deadlines: dict[Hashable, float] = {}
        self._armed: dict[Hashable, tuple[float, Timer]] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Hashable, delay_ms: int) -> None:
        """Call `fired(key)` once, after the delay; replaces an earlier timer of the same key."""
        deadline = self._clock.monotonic() + delay_ms / 1000
        self._deadlines[key] = deadline
        armed = self._armed.get(key)
        if armed is not None:
            if armed[0] <= deadline:
                return
            armed[1].cancel()
        self._arm(key, deadline)

    def cancel(self, key: Hashable) -> None:
        if self._deadlines.pop(key, None) is not None:
            self._armed.pop(key)[1].cancel()

    def clear(self) -> None:
        for _, timer in self._armed.values():
            timer.cancel()
        self._armed.clear()
        self._deadlines.clear()

    def _arm(self, key: Hashable, deadline: float) -> None:
        delay = max(0.0, deadline - self._clock.monotonic())
        self._armed[key] = (deadline, self._clock.call_later(delay, lambda: self._look(key)))

    def _look(self, key: Hashable) -> None:
        deadline = self._deadlines[key]
        # Compared with the armed deadline, not with the clock: a timer may fire a little early.
        if deadline > self._armed.pop(key)[0]:
            self._arm(key, deadline)
        else:
            del self._deadlines[key]
            self._fired(key)
