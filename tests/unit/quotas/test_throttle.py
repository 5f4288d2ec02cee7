"""Throttling: which channels are muted, and until when."""

from penstock.quotas.entity import PRODUCER_BYTE_RATE
from penstock.quotas.limits import Spans
from penstock.quotas.throttle import Throttle
from tests.unit.ports.ticking import TickingClock


class Line:
    """Records calls of mute and unmute."""

    def __init__(self) -> None:
        self.is_muted = False

    def mute(self) -> None:
        self.is_muted = True

    def unmute(self) -> None:
        self.is_muted = False


def world() -> tuple[TickingClock, Throttle, Line]:
    clock = TickingClock()
    return clock, Throttle(clock, Spans), Line()


def test_a_channel_is_unmuted_when_the_longest_of_its_waits_is_over() -> None:
    clock, throttle, line = world()
    throttle.mute(line, 0, 1.0)
    throttle.mute(line, 0, 3.0)
    throttle.mute(line, 0, 2.0)
    clock.tick(2.5)
    assert (line.is_muted, throttle.muted_count) == (True, 1)
    clock.tick(0.5)
    assert (line.is_muted, throttle.muted_count) == (False, 0)
    assert (throttle.muted_count_total, throttle.muted_s_total) == (3, 6.0)


def test_a_change_of_quotas_unmutes_every_channel() -> None:
    clock, throttle, line = world()
    throttle.mute(line, 0, 1_000_000)
    throttle.quotas_changed({(("user", None),): {PRODUCER_BYTE_RATE: 1.0}})
    assert (line.is_muted, throttle.table is None) == (False, False)
    throttle.quotas_changed({})
    assert (throttle.table, clock.waiting) == (None, [])


def test_a_lost_channel_is_not_called() -> None:
    clock, throttle, line = world()
    throttle.mute(line, 0, 1.0)
    throttle.forget(line)
    clock.tick(2)
    assert line.is_muted and not clock.waiting
