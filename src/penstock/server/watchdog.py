"""Watchdog for code that blocks the event loop: turns, requests, and steps of jobs.

No request may block the loop for more than `HELD_MS_MAX` (docs/internals/loop.md). Elapsed times include time in
which the machine gave the process no CPU, so the CPU time of the thread is recorded too. Goes to metrics/; logs what it
finds, at most once a minute for each API.
"""

import logging
from typing import TYPE_CHECKING, Final

from penstock.wire.frame import MalformedRequest, parse_header

if TYPE_CHECKING:
    from penstock.metrics.metrics import Metrics
    from penstock.ports.clock import Clock
    from penstock.ports.instruments import Stopwatch
    from penstock.ports.network import Session

log = logging.getLogger(__name__)

NS_PER_MS: Final = 1_000_000
HELD_MS_MAX: Final = 10
WARN_MS_MIN: Final = 50
"""Below this nothing is logged: machines often take the CPU away for a few milliseconds."""
WAITED_MS_MIN: Final = 500
"""From this on it is a warning even without CPU time: the disk is slow, or the machine is overloaded."""
LOG_AGAIN_AFTER_S: Final = 60.0


class LoopWatchdog:
    def __init__(self, metrics: "Metrics", clock: "Clock", stopwatch: "Stopwatch") -> None:
        self._metrics = metrics
        self._clock = clock
        self._stopwatch = stopwatch
        self._logged_at: dict[str, float] = {}

    def turn_held(self, held_ns: int, cpu_ns: int) -> None:
        metrics = self._metrics
        metrics.loop_held.observe(held_ns)
        if held_ns > metrics.loop_held_max_ns:
            metrics.loop_held_max_ns = held_ns
        if cpu_ns > metrics.loop_held_cpu_max_ns:
            metrics.loop_held_cpu_max_ns = cpu_ns

    def request_held(self, session: "Session", frame: memoryview, held_ns: int) -> None:
        try:
            header = parse_header(frame)
        except MalformedRequest:
            return
        self.api_held(header.api_key, header.client_id, held_ns)

    def api_held(self, api_key: int, client_id: str | None, held_ns: int) -> None:
        """Record how long a request blocked the loop, when it arrived or when it resumed."""
        meter = self._metrics.requests.get(api_key)
        if meter is None:
            return
        cpu_ns = self._stopwatch.cpu_ns(held_ns)
        meter.held_max_ns = max(meter.held_max_ns, held_ns)
        meter.held_cpu_max_ns = max(meter.held_cpu_max_ns, cpu_ns)
        if held_ns > HELD_MS_MAX * NS_PER_MS:
            meter.held_long += 1
        if held_ns > WARN_MS_MIN * NS_PER_MS:
            self._warn(meter.name, "a %s request of client %r blocked the event loop for %d ms, %d ms of it CPU time",
                       client_id, held_ns, cpu_ns)  # fmt: skip

    def step_held(self, job: str, held_s: float) -> None:
        """Record how long one step of a job blocked the loop."""
        held_ns = int(held_s * 1e9)
        cpu_ns = self._stopwatch.cpu_ns(held_ns)
        metrics = self._metrics
        metrics.job_held_max_ns = max(metrics.job_held_max_ns, held_ns)
        metrics.job_held_cpu_max_ns = max(metrics.job_held_cpu_max_ns, cpu_ns)
        if held_ns > WARN_MS_MIN * NS_PER_MS:
            self._warn(job, "a step of the job %s (%r) blocked the event loop for %d ms, %d ms of it CPU time",
                       None, held_ns, cpu_ns)  # fmt: skip

    def _warn(self, name: str, text: str, client_id: str | None, held_ns: int, cpu_ns: int) -> None:
        now = self._clock.monotonic()
        if now - self._logged_at.get(name, -LOG_AGAIN_AFTER_S) >= LOG_AGAIN_AFTER_S:
            self._logged_at[name] = now
            is_problem = cpu_ns > HELD_MS_MAX * NS_PER_MS or held_ns >= WAITED_MS_MIN * NS_PER_MS
            level = logging.WARNING if is_problem else logging.INFO
            log.log(level, text, name, client_id, held_ns // NS_PER_MS, cpu_ns // NS_PER_MS)
