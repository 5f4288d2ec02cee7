"""Timers that are moved frequently."""

from collections.abc import Hashable

from penstock.coordinator.timers import Timers
from tests.unit.coordinator.fakes import FakeClock


def start() -> tuple[FakeClock, Timers, list[Hashable]]:
    clock, fired = FakeClock(), list[Hashable]()
    return clock, Timers(clock, fired.append), fired


def test_a_timer_fires_once() -> None:
    clock, timers, fired = start()
    timers.set("a", 1_000)
    clock.advance(0.9)
    assert fired == []
    clock.advance(5)
    assert fired == ["a"]
    assert len(timers) == 0


def test_moving_a_timer_later_arms_no_new_one() -> None:
    clock, timers, fired = start()
    for _ in range(100):
        timers.set("a", 1_000)
        clock.advance(0.001)
    assert len(clock.timers) == 1
    clock.advance(0.95)
    assert fired == []
    clock.advance(0.1)
    assert fired == ["a"]


def test_a_timer_can_be_moved_to_an_earlier_time() -> None:
    clock, timers, fired = start()
    timers.set("a", 10_000)
    timers.set("a", 1_000)
    clock.advance(1)
    assert fired == ["a"]
    clock.advance(20)
    assert fired == ["a"]


def test_a_cancelled_timer_does_not_fire() -> None:
    clock, timers, fired = start()
    timers.set("a", 1_000)
    timers.set("b", 1_000)
    timers.cancel("a")
    timers.cancel("never set")
    clock.advance(2)
    assert fired == ["b"]
    timers.set("c", 1_000)
    timers.clear()
    clock.advance(2)
    assert fired == ["b"]


def test_a_timer_may_be_set_again_when_it_fires() -> None:
    clock = FakeClock()
    fired: list[float] = []

    def fire(key: Hashable) -> None:
        fired.append(clock.now)
        timers.set(key, 1_000)

    timers = Timers(clock, fire)
    timers.set("a", 1_000)
    clock.advance(3.5)
    assert fired == [101.0, 102.0, 103.0]
