from collections.abc import Callable

from penstock.replication.waiting import Deadlines


class ManualClock:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "ManualTimer":
        entry = (self.now + delay_s, callback)
        self.timers.append(entry)
        return ManualTimer(self, entry)

    def move_to(self, now: float) -> None:
        self.now = now
        for entry in [timer for timer in self.timers if timer[0] <= now]:
            self.timers.remove(entry)
            entry[1]()


class ManualTimer:
    def __init__(self, clock: ManualClock, entry: tuple[float, Callable[[], None]]) -> None:
        self._clock = clock
        self._entry = entry

    def cancel(self) -> None:
        if self._entry in self._clock.timers:
            self._clock.timers.remove(self._entry)


class Waiter:
    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    def more_bytes(self, size: int) -> None:
        self._seen.append(f"{self._name} +{size}")

    def changed(self) -> None:
        self._seen.append(f"{self._name} changed")

    def expired(self) -> None:
        self._seen.append(self._name)


def test_waiters_expire_in_the_order_of_their_deadlines() -> None:
    clock, seen = ManualClock(), []  # type: ManualClock, list[str]
    deadlines = Deadlines(clock)
    deadlines.add(3.0, Waiter("late", seen))
    deadlines.add(1.0, Waiter("early", seen))
    deadlines.add(2.0, Waiter("middle", seen))
    clock.move_to(2.5)
    assert seen == ["early", "middle"]
    clock.move_to(3.0)
    assert seen == ["early", "middle", "late"]


def test_one_timer_serves_all_deadlines() -> None:
    clock, seen = ManualClock(), []  # type: ManualClock, list[str]
    deadlines = Deadlines(clock)
    for delay in (5.0, 4.0, 3.0, 6.0):
        deadlines.add(delay, Waiter("x", seen))
    assert len(clock.timers) == 1
    deadlines.stop()
    assert clock.timers == []
