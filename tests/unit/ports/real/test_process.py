"""The settings of the garbage collector: few objects are scanned at a time, and old ones not again. Open files."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.ports.real import process
from penstock.ports.real.process import (
    OLDEST_GENERATION,
    SCAN_FULL_COUNT_MIN,
    SCAN_INTERVAL_S,
    Freezer,
    process_usage,
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


def test_open_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = process_usage()["process_open_fds"]
    with contextlib.ExitStack() as opened:
        for number in range(10):
            opened.enter_context((tmp_path / str(number)).open("w"))
        assert process_usage()["process_open_fds"] == before + 10
    # Before Linux 6.2, the folder of the open files had no size.
    monkeypatch.setattr(process, "os", SimpleNamespace(stat=lambda _: SimpleNamespace(st_size=0), listdir=os.listdir))
    assert process._open_file_count(str(tmp_path)) == 10
