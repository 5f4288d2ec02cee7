"""Who is muted and until when."""

from penstock.quotas.entity import PRODUCER_BYTE_RATE
from penstock.quotas.limits import Spans
from penstock.quotas.throttle import Throttle
from tests.unit.ports.ticking import TickingClock


class Line:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.is_muted = False

    def mute(self) -> None:
        self.is_muted = True

    def unmute(self) -> None:
        self.is_muted = False


def world() -> tuple[TickingClock, Throttle, Line]:
    clock = TickingClock()
    return clock, Throttle(clock, Spans), Line()


def test_a_channel_is_heard_again_when_the_longest_of_its_times_is_over() -> None:
    clock, throttle, line = world()
    throttle.mute(line, 0, 1.0)
    throttle.mute(line, 0, 3.0)
    throttle.mute(line, 0, 2.0)
    clock.tick(2.5)
    assert (line.is_muted, throttle.muted_count) == (True, 1)
    clock.tick(0.5)
    assert (line.is_muted, throttle.muted_count) == (False, 0)
    assert (throttle.muted_count_total, throttle.muted_s_total) == (3, 6.0)


def test_when_a_quota_changes_everybody_is_heard_again() -> None:
    clock, throttle, line = world()
    throttle.mute(line, 0, 1_000_000)
    throttle.quotas_changed({(("user", None),): {PRODUCER_BYTE_RATE: 1.0}})
    assert (line.is_muted, throttle.table is None) == (False, False)
    throttle.quotas_changed({})
    assert (throttle.table, clock.waiting) == (None, [])


def test_a_lost_channel_is_not_told_of_anything() -> None:
    clock, throttle, line = world()
    throttle.mute(line, 0, 1.0)
    throttle.forget(line)
    clock.tick(2)
    assert line.is_muted and not clock.waiting
