"""The watchdog counts what blocks the event loop, and logs it once a minute."""

import logging
from typing import Any

import pytest

from penstock.metrics.metrics import Metrics
from penstock.server.monitoring import ClockStopwatch
from penstock.server.watchdog import NS_PER_MS, LoopWatchdog
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import request_head
from tests.unit.ports.ticking import TickingClock


class PartlyBusy(ClockStopwatch):
    """A stopwatch of a thread that has a CPU for a fraction of the time."""

    def __init__(self, clock: TickingClock, cpu_share: float) -> None:
        super().__init__(clock)
        self._cpu_share = cpu_share

    def cpu_ns(self, held_ns: int) -> int:
        return int(held_ns * self._cpu_share)


def watching(metrics: Metrics, clock: TickingClock, cpu_share: float = 1.0) -> LoopWatchdog:
    return LoopWatchdog(metrics, clock, PartlyBusy(clock, cpu_share))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics({api.key: api.name for api in APIS.values()})


def test_a_request_is_counted_under_its_api_and_logged_once_a_minute(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TickingClock()
    watchdog = watching(metrics, clock)
    frame = memoryview(bytearray(request_head(ApiKey.METADATA, 12, 1, "slow-client", 0)[4:]))
    session: Any = None
    with caplog.at_level(logging.WARNING):
        for held_ms in (2, 70, 90):
            watchdog.request_held(session, frame, held_ms * NS_PER_MS)
    meter = metrics.requests[ApiKey.METADATA]
    assert (meter.held_max_ns, meter.held_long) == (90 * NS_PER_MS, 2)
    (record,) = caplog.records
    assert "Metadata" in record.getMessage() and "slow-client" in record.getMessage() and "70" in record.getMessage()
    clock.tick(61.0)
    watchdog.request_held(session, frame, 80 * NS_PER_MS)
    assert len(caplog.records) == 2


def test_cpu_time_is_recorded_beside_elapsed_time(metrics: Metrics) -> None:
    watchdog = watching(metrics, TickingClock(), cpu_share=0.25)
    watchdog.api_held(ApiKey.FETCH, "client", 40 * NS_PER_MS)
    watchdog.api_held(ApiKey.FETCH, "client", 20 * NS_PER_MS)
    meter = metrics.requests[ApiKey.FETCH]
    assert (meter.held_max_ns, meter.held_cpu_max_ns) == (40 * NS_PER_MS, 10 * NS_PER_MS)
    watchdog.step_held("job", 0.008)
    assert (metrics.job_held_max_ns, metrics.job_held_cpu_max_ns) == (8 * NS_PER_MS, 2 * NS_PER_MS)


@pytest.mark.parametrize(("held_ms", "level"), [(100, logging.INFO), (600, logging.WARNING)])
def test_a_short_wait_without_cpu_time_is_no_warning(
    metrics: Metrics, caplog: pytest.LogCaptureFixture, held_ms: int, level: int
) -> None:
    with caplog.at_level(logging.INFO):
        watching(metrics, TickingClock(), cpu_share=0.01).step_held("compaction", held_ms / 1000)
    assert [record.levelno for record in caplog.records] == [level]


def test_turns_and_steps_are_recorded(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    watchdog = watching(metrics, TickingClock())
    watchdog.turn_held(3 * NS_PER_MS, 1 * NS_PER_MS)
    watchdog.turn_held(2 * NS_PER_MS, 2 * NS_PER_MS)
    assert metrics.loop_held_max_ns == 3 * NS_PER_MS
    assert metrics.loop_held_cpu_max_ns == 2 * NS_PER_MS
    assert sum(metrics.loop_held.counts) == 2
    watchdog.step_held("job", 0.02)
    assert not caplog.records
    watchdog.step_held("job", 0.2)
    assert "job" in caplog.records[0].getMessage()


def test_a_malformed_frame_is_not_counted(metrics: Metrics) -> None:
    session: Any = None
    watching(metrics, TickingClock()).request_held(session, memoryview(b"\x7f\x7f"), 1 << 40)
    assert not any(meter.held_long for meter in metrics.requests.values())
