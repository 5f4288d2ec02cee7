"""A clock that stands still until a test advances it, and then runs every timer in order."""

from collections.abc import Callable


class Ringer:
    def __init__(self, clock: "TickingClock", when: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.when = when
        self.callback = callback

    def cancel(self) -> None:
        if self in self._clock.waiting:
            self._clock.waiting.remove(self)


class TickingClock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[Ringer] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Ringer:
        ringer = Ringer(self, self.now + delay_s, callback)
        self.waiting.append(ringer)
        return ringer

    def tick(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((one for one in self.waiting if one.when <= end), key=lambda one: one.when):
            self.now = due[0].when
            due[0].cancel()
            due[0].callback()
        self.now = end
