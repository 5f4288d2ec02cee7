"""Notes what keeps the event loop from everything else: turns, requests, and steps of jobs.

No request may keep the loop for more than `HELD_MS_MAX` (docs/internals/loop.md). The times are those of a wall clock:
a machine that gives the process no processor shows here too. Goes to metrics/; says what it finds in the log, at most
once a minute for each API.
"""

import logging
from typing import TYPE_CHECKING, Final

from penstock.wire.frame import MalformedRequest, parse_header

if TYPE_CHECKING:
    from penstock.metrics.metrics import Metrics
    from penstock.ports.clock import Clock
    from penstock.ports.network import Session

log = logging.getLogger(__name__)

NS_PER_MS: Final = 1_000_000
HELD_MS_MAX: Final = 10
WARNED_MS: Final = 50
"""Machines take the processor away for a few milliseconds all the time; nobody should be woken up for that."""
SAID_AGAIN_AFTER_S: Final = 60.0


class LoopWatchdog:
    def __init__(self, metrics: "Metrics", clock: "Clock") -> None:
        self._metrics = metrics
        self._clock = clock
        self._said: dict[str, float] = {}

    def turn_held(self, held_ns: int) -> None:
        metrics = self._metrics
        metrics.loop_held.observe(held_ns)
        if held_ns > metrics.loop_held_max_ns:
            metrics.loop_held_max_ns = held_ns

    def request_held(self, session: "Session", frame: memoryview, held_ns: int) -> None:
        try:
            header = parse_header(frame)
        except MalformedRequest:
            return
        self.api_held(header.api_key, header.client_id, held_ns)

    def api_held(self, api_key: int, client_id: str | None, held_ns: int) -> None:
        """A request of an API kept the loop for so long, when it arrived or when it went on."""
        meter = self._metrics.requests.get(api_key)
        if meter is None:
            return
        if held_ns > meter.held_max_ns:
            meter.held_max_ns = held_ns
        if held_ns > HELD_MS_MAX * NS_PER_MS:
            meter.held_long += 1
        if held_ns > WARNED_MS * NS_PER_MS:
            self._warn(meter.name, "a %s request of client %r kept the event loop for %d ms", client_id, held_ns)

    def step_held(self, job: str, held_s: float) -> None:
        """One step of a job kept the loop for so long."""
        if held_s * 1000 > WARNED_MS:
            self._warn(job, "a step of the job %s (%r) kept the event loop for %d ms", None, int(held_s * 1e9))

    def _warn(self, name: str, text: str, client_id: str | None, held_ns: int) -> None:
        now = self._clock.monotonic()
        if now - self._said.get(name, -SAID_AGAIN_AFTER_S) >= SAID_AGAIN_AFTER_S:
            self._said[name] = now
            log.warning(text, name, client_id, held_ns // NS_PER_MS)
