"""Tests of the settings of the garbage collector: few objects are scanned at a time, and old ones not again."""

import gc
from collections.abc import Iterator

import pytest

from penstock.ports.real.process import (
    OLDEST_GENERATION,
    SCAN_FULL_COUNT_MIN,
    SCAN_INTERVAL_S,
    Freezer,
    settle_memory,
)

SCANNED_MAX = 12_000
"""At 250 ns each, what may be scanned without a break."""
FULL, YOUNG = {"generation": OLDEST_GENERATION}, {"generation": 0}


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold(), list(gc.callbacks), gc.isenabled()
    yield
    gc.set_threshold(*before[0])
    gc.callbacks[:] = before[1]
    gc.unfreeze()
    if before[2]:
        gc.enable()


def test_no_collection_scans_many_objects_however_many_are_kept() -> None:
    settle_memory()
    gc.enable()
    scanned: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            scanned.append(sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))

    gc.callbacks.insert(0, note)
    kept = [[number] for number in range(100_000)]
    assert len(kept) == 100_000
    assert len(scanned) > 10
    assert max(scanned) < SCANNED_MAX


def test_a_cycle_that_is_garbage_when_it_is_old_is_found_by_a_later_scan() -> None:
    gc.disable()
    gc.collect()
    gc.freeze()
    times = [0.0]
    freezer = Freezer(lambda: times[0])
    cycle: list[object] = []
    cycle.append(cycle)
    freezer("stop", FULL)
    assert gc.get_freeze_count() > 0
    del cycle
    for _ in range(SCAN_FULL_COUNT_MIN):
        freezer("start", FULL)
        freezer("stop", YOUNG)
        freezer("stop", FULL)
    assert gc.collect() == 0, "an hour has not passed"
    times[0] = SCAN_INTERVAL_S
    freezer("stop", FULL)
    assert gc.get_freeze_count() == 0
    assert gc.collect() >= 1
    freezer("stop", FULL)
    assert gc.get_freeze_count() > 0
