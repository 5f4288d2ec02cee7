"""Rounds visit every partition that this node leads, a bounded number per turn of the event loop."""

from types import SimpleNamespace
from typing import Any, cast

from penstock.replication.rounds import VISITS_PER_SLICE, LeaderRounds
from tests.unit.ports.ticking import TickingClock


def partitions(count: int) -> list[Any]:
    return [SimpleNamespace(leadership=object()) for _ in range(count)]


def test_a_small_round_is_finished_at_once_and_skips_partitions_that_others_lead() -> None:
    clock = TickingClock()
    visited: list[Any] = []
    led = partitions(2)
    LeaderRounds(cast(Any, clock)).begin(visited.append, [*led, SimpleNamespace(leadership=None)])  # type: ignore[list-item]
    assert visited == led
    assert not clock.waiting


def test_a_large_round_takes_several_turns_and_visits_each_partition_once() -> None:
    clock = TickingClock()
    visited: list[Any] = []
    led = partitions(3 * VISITS_PER_SLICE)
    LeaderRounds(cast(Any, clock)).begin(visited.append, led)
    assert len(visited) == VISITS_PER_SLICE
    clock.tick(0)
    assert visited == led


def test_a_new_round_replaces_what_is_left_and_a_stopped_one_ends() -> None:
    clock = TickingClock()
    visited: list[Any] = []
    rounds = LeaderRounds(cast(Any, clock))
    visit = visited.append
    rounds.begin(visit, partitions(2 * VISITS_PER_SLICE))
    again = partitions(2 * VISITS_PER_SLICE)
    rounds.begin(visit, again)
    rounds.stop()
    clock.tick(1)
    assert len(visited) == VISITS_PER_SLICE
