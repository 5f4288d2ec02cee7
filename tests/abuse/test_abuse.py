"""Tests of a small part of `make abuse`: one attack of each family, and the judgement itself.

Time limits are so generous that a slow machine passes; what must never happen is checked exactly: no acknowledged
record is lost, no other client's request fails, sockets close, and the log has no traceback.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.abuse.attack import Bounds
from tests.abuse.campaign import Latency, NoCompiler, Pace, Result, latency, over_bounds, run
from tests.abuse.catalogue import ATTACKS, BY_NAME
from tests.abuse.watch import JOB, LoopHeld

PACE = Pace(warm_up_s=0.1, quiet_s=0.3, settle_s=0.1)
SECONDS, SCALE = 1.0, 0.05
NO_LIMIT_MS = 25_000.0
# Some seconds of decompression in one request; on the event loop it would block all clients for as long.
SCALES = {"bomb-request": 0.25}
GAP_MS_MAX = 3_000.0
GENEROUS = Bounds(
    p99_ms=NO_LIMIT_MS, p99_ratio=1e9, max_ms=NO_LIMIT_MS, large_max_ms=NO_LIMIT_MS, health_ms=NO_LIMIT_MS,
    gap_ms=NO_LIMIT_MS, loop_held_ms=NO_LIMIT_MS, memory_mb=400.0, memory_after_mb=300.0, recovery_s=60.0,
)  # fmt: skip
QUICK = ("bomb-request", "many-stalls", "cut-closed-segment")
SLOW = (
    "slow-http-heads",
    "new-tls-keys",
    "wrong-frames",
    "long-names",
    "large-joins",
    "long-partition-lists",
    "unsendable-segment",
)


def test_the_selection_has_an_attack_of_each_family() -> None:
    assert {BY_NAME[name].family for name in QUICK + SLOW} == {attack.family for attack in ATTACKS}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_node_serves_other_clients_during(name: str) -> None:
    attack = BY_NAME[name]
    if attack.uses_tls and shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    bounds = replace(GENEROUS, files_kept=attack.bounds.files_kept)
    if name in SCALES:
        bounds = replace(bounds, gap_ms=GAP_MS_MAX, loop_held_ms=GAP_MS_MAX)
    scale = SCALES.get(name, SCALE)
    try:
        result = run(attack, seconds=SECONDS, scale=scale, pace=PACE, bounds=bounds, exact_seconds=True)
    except NoCompiler as missing:
        pytest.skip(str(missing))
    assert result.broken == []
    assert result.small.count > 0, "the well-behaved client did nothing"
    assert sum(result.counts.values()) > 0, "the attacker did nothing"


# -- the judgement -----------------------------------------------------------------------------------------------------

FINE = Result(
    attack="none", family="none", node="Penstock", seconds=1.0, quiet=Latency(100, 1.0, 2.0, 3.0),
    small=Latency(100, 1.0, 20.0, 30.0), large=Latency(10, 10.0, 20.0, 20.0), memory_mb=(50.0, 60.0, 55.0),
    descriptors=(20, 30, 20), gap_ms=5.0, late_ms=0.0, quiet_gap_ms=1.0,
    loop=LoopHeld(9.0, {"Fetch": 4.0}, {"Fetch": 3.0}), waited_ms=2.0, slowdown=1.0, health_ms=3.0, counts={},
)  # fmt: skip


def test_a_result_within_its_limits_passes() -> None:
    assert over_bounds(FINE, Bounds()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"small": Latency(100, 1.0, 250.0, 260.0)}, "p99 250 ms, allowed 202"),
        ({"small": Latency(100, 1.0, 20.0, 2_500.0)}, "max 2500 ms"),
        ({"small": Latency(100, 1.0, 20.0, 30.0, ("TimeoutError",))}, "small requests failed"),
        ({"large": Latency(10, 10.0, 20.0, 6_000.0)}, "900 KB max 6000 ms"),
        ({"large": Latency(10, 10.0, 20.0, 20.0, ("ConnectionResetError",))}, "requests of 900 KB failed"),
        ({"memory_mb": (50.0, 300.0, 60.0)}, "memory grew by 250 MB"),
        ({"memory_mb": (50.0, 210.0, 205.0)}, "155 MB more are held afterwards"),
        (
            {"loop": LoopHeld(30.0, {"Fetch": 4.0, "Produce": 13.0}, {})},
            "blocked by Produce 13, Fetch 4 ms, allowed 12",
        ),
        (
            {"loop": LoopHeld(30.0, {"Fetch": 11.0}, {"Fetch": 11.0})},
            "CPU time without a break: Fetch 11 ms, allowed 10",
        ),
        ({"loop": LoopHeld(30.0, {JOB: 11.0}, {JOB: 11.0}), "slowdown": 5.0}, "a step of a job 11 ms, allowed 10"),
        ({"loop": None}, "the node did not report"),
        ({"gap_ms": 1_500.0}, "no client received a response for 1500 ms"),
        ({"health_ms": 3_000.0}, "/health took 3000 ms"),
    ],
)
def test_each_limit_is_checked(change: dict[str, object], said: str) -> None:
    (broken,) = over_bounds(replace(FINE, **change), Bounds())  # type: ignore[arg-type]
    assert said in broken


def test_a_short_measurement_of_the_idle_node_sets_no_limit() -> None:
    slower = replace(FINE, quiet=Latency(5, 1.0, 2.0, 3.0), small=Latency(100, 1.0, 400.0, 450.0))
    assert over_bounds(slower, Bounds()) == []


def test_a_long_wait_counts_as_much_as_the_requests_that_it_delayed() -> None:
    quick = [{"kind": "small produce", "began": 1.0, "took_ms": 1.0, "error": ""}] * 900
    slow = {"kind": "small produce", "began": 1.5, "took_ms": 1_000.0, "error": ""}
    found = latency([*quick, slow], "small", 0.0, 2.0)
    # One request in 901 would not affect a p99; the twenty that were due meanwhile do.
    assert found.p99_ms > 400
    assert found.max_ms == 1_000.0
    assert found.count == 901


def test_a_request_in_flight_during_the_attack_counts() -> None:
    before, through = (
        {"kind": "small fetch", "began": at, "took_ms": took, "error": ""} for at, took in ((1, 10), (2, 9e3))
    )
    samples = [before, through]
    assert latency(samples, "small", 3.0, 8.0).max_ms == 9_000
    assert latency(samples, "small", 0.0, 3.0, is_quiet=True).max_ms == 10
