"""Monitoring of a node: its metrics, the HTTP endpoint that serves them, and the event loop's lag.

The endpoint answers before the node serves clients, so that /ready can say what is missing. Goes to http_endpoint.py,
sources.py, changes.py. Raises StartupError for an address that cannot be bound.
"""

import errno
import logging
from math import ceil
from typing import TYPE_CHECKING, Final

from penstock.metrics.metrics import Metrics
from penstock.model.errors import PortInUse, StartupError
from penstock.ports.instruments import Instruments
from penstock.server.changes import ChangeCounter
from penstock.server.http_endpoint import HttpEndpoint, LoopWatch
from penstock.server.sources import add_sources
from penstock.server.watchdog import LoopWatchdog
from penstock.wire.api import APIS

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context
    from penstock.ports.clock import Clock
    from penstock.ports.instruments import HttpListener, Stopwatch
    from penstock.server.dispatch import Dispatcher
    from penstock.server.listener import Admission

log = logging.getLogger(__name__)

UNIX: Final = "unix:"


def parse_metrics_listener(address: str) -> tuple[str, int]:
    """Return host and port of `http://host:port`; for `unix:/path`, the path and 0."""
    if address.startswith(UNIX):
        return address.removeprefix(UNIX), 0
    host, _, port = address.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


class ClockStopwatch:
    """A stopwatch on the clock port, used where no better one is available."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock

    def now_ns(self) -> int:
        return int(self._clock.monotonic() * 1e9)

    @property
    def turn_began(self) -> int:
        return self.now_ns()

    def mark_cpu(self, now_ns: int) -> None:
        pass

    def cpu_ns(self, held_ns: int) -> int:
        return held_ns


class Monitoring:
    def __init__(self, clock: "Clock", instruments: Instruments | None) -> None:
        self._instruments = instruments or Instruments()
        self.metrics = Metrics({api.key: api.name for api in APIS.values()})
        self.stopwatch: Stopwatch = self._instruments.stopwatch or ClockStopwatch(clock)
        self._loop_watch = LoopWatch(clock, self.metrics.loop_lag)
        self._context: Context | None = None
        self._listener: HttpListener | None = None

    @property
    def port(self) -> int | None:
        return None if self._listener is None else self._listener.port

    async def listen(self, address: str | None) -> None:
        """Serve `http://host:port`, if an address is given."""
        http = self._instruments.http
        if not address or http is None:
            return
        host, port = parse_metrics_listener(address)
        monitor = HttpEndpoint(self.metrics, lambda: self._context)
        try:
            self._listener = await http.listen(host, port, monitor.answer)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(port, "--metrics") from None
            raise StartupError(f"Cannot serve metrics at {address}: {error.strerror or error}") from None
        if not address.startswith(UNIX):
            log.info(
                "serving metrics at http://%s:%d/metrics",
                f"[{host}]" if ":" in host else host or "localhost",
                self._listener.port,
            )

    def begin(self, context: "Context", admission: "Admission", dispatcher: "Dispatcher") -> None:
        """Start monitoring a node that serves clients from now on."""
        self._context = context
        context.quorum.subscribe(ChangeCounter(self.metrics, context.quorum, context.node_id).image_changed)
        add_sources(self.metrics, context, admission, self._instruments)
        watchdog = LoopWatchdog(self.metrics, context.clock, self.stopwatch)
        if self._instruments.watch is not None:
            self._instruments.watch(watchdog)
        context.scheduler.on_long_step = watchdog.step_held
        context.scheduler.before_turn = lambda: self.stopwatch.mark_cpu(self.stopwatch.now_ns())
        dispatcher.on_held = watchdog.api_held
        if self._instruments.time_syncs is not None:
            self._instruments.time_syncs(self.metrics.flush_time.observe)
        self._loop_watch.start()

    def record_throttle_time(self, api_key: int, seconds: float) -> None:
        self.metrics.requests[api_key].throttled_ms += ceil(seconds * 1000)

    async def stop(self) -> None:
        self._context = None
        self._loop_watch.stop()
        if self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.close()
