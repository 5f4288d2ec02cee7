"""HTTP endpoint for monitoring: /metrics, /health, /ready and /share-partitions.

/health: the process is alive and its data folder is online; restart the node if not. /ready: the node serves clients,
accepts writes and the controller may elect it as a leader; send it no clients if not. A full disk is only a warning in
/health, because a restart does not free space. Responses are written in pieces, so that the event loop
is not blocked. Also measures how late timers run, because every client waits as long.
Next: metrics/, sources.py, share_view.py.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from penstock.metrics.exposition import CONTENT_TYPE
from penstock.ports.instruments import HttpAnswer
from penstock.server.share_view import render_share_partitions
from penstock.storage.reserve import without_path

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context
    from penstock.metrics.metrics import Metrics
    from penstock.metrics.values import Histogram
    from penstock.ports.clock import Clock, Timer

LOOP_CHECK_S = 0.25
PAGE = """<!doctype html><title>Penstock</title><h1>Penstock</h1>
<p><a href="/metrics">/metrics</a> <a href="/health">/health</a> <a href="/ready">/ready</a>
<a href="/share-partitions">/share-partitions</a></p>
"""
HIDDEN = "names of topics and groups are hidden: set metrics.names=shown to show them without a login\n"
NOT_FOUND = "not found: use /metrics, /health, /ready or /share-partitions\n"


class HttpEndpoint:
    def __init__(self, metrics: "Metrics", context: "Callable[[], Context | None]") -> None:
        self._metrics = metrics
        self._context = context

    def answer(self, path: str) -> HttpAnswer:
        if path == "/metrics":
            return HttpAnswer(200, CONTENT_TYPE, _pieces(self._metrics.render()))
        if path == "/health":
            return _verdict(self._health_problem(), self._warnings())
        if path == "/ready":
            return _verdict(self._health_problem() or self._readiness_problem(), self._warnings())
        if path == "/share-partitions":
            if self._metrics.hides_names:
                return HttpAnswer(403, "text/plain; charset=utf-8", _pieces([HIDDEN]))
            return HttpAnswer(200, "application/json", _pieces(render_share_partitions(self._context())))
        if path == "/":
            return HttpAnswer(200, "text/html; charset=utf-8", _pieces([PAGE]))
        return HttpAnswer(404, "text/plain; charset=utf-8", _pieces([NOT_FOUND]))

    def _health_problem(self) -> str | None:
        context = self._context()
        if context is None or context.store.failure is None:
            return None
        return f"the data folder {context.store.folder} is offline: {without_path(context.store.failure)}"

    def _warnings(self) -> list[str]:
        context = self._context()
        if context is None or not context.store.is_read_only:
            return []
        return [context.store.directory.describe_refusal()]

    def _readiness_problem(self) -> str | None:
        context = self._context()
        if context is None:
            return "the node is starting or stopping"
        if context.quorum.leader is None:
            return "the quorum has no leader"
        broker = context.quorum.image.brokers.get(context.node_id)
        if broker is None:
            return "the broker is not registered"
        if broker.fenced:
            return "the broker is fenced"
        return context.store.directory.describe_refusal() if context.store.is_read_only else None


def _verdict(problem: str | None, warnings: list[str]) -> HttpAnswer:
    body: dict[str, object] = {"status": "ok"} if problem is None else {"status": "failed", "reason": problem}
    if warnings:
        body["warnings"] = warnings
    return HttpAnswer(200 if problem is None else 503, "application/json", _pieces([json.dumps(body) + "\n"]))


async def _pieces(texts: Iterable[str]) -> AsyncIterator[bytes]:
    for text in texts:
        yield text.encode()


class LoopWatch:
    """Repeating timer that measures how late it runs."""

    def __init__(self, clock: "Clock", lag: "Histogram") -> None:
        self._clock = clock
        self._lag = lag
        self._timer: Timer | None = None
        self._due = 0.0

    def start(self) -> None:
        self._due = self._clock.monotonic() + LOOP_CHECK_S
        self._timer = self._clock.call_later(LOOP_CHECK_S, self._rang)

    def _rang(self) -> None:
        self._lag.observe(max(0, int((self._clock.monotonic() - self._due) * 1e9)))
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
