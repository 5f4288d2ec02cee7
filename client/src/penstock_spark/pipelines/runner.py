"""The runner of a plan: runs flows once over all available rows, or continuously until stopped.

It starts Spark's queries in order, polls them, and passes each update to `report`. A failed flow stops the others and
raises FlowFailed. A stop lets each query finish its current batch, so that the next run starts quickly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock_client.errors import PenstockClientError
from penstock_spark.pipelines.plan import LAKE_FORMATS, Plan, PlannedFlow
from penstock_spark.pipelines.progress import ATTEMPTS, FlowProgress, is_transient, reason
from penstock_spark.pipelines.sources import FORMAT, client_options, sink_for_jvm
from penstock_spark.pipelines.spec import Spec
from penstock_spark.pipelines.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_EVERY_S: Final = 0.5
STATE_EVERY_S: Final = 2.0
DRAIN_S: Final = 60.0
QUERIES_AT_ONCE: Final = 4
OUTPUT_MODE: Final = "penstock.outputMode"
TRIGGER: Final = "penstock.trigger"

Report = Callable[[list[FlowProgress]], None]


class FlowFailed(PenstockClientError):
    """A flow failed; the others were stopped."""


class Runner:
    """One run of one plan."""

    def __init__(
        self, spec: Spec, spark: SparkSession, plan: Plan, store: Store, *, continuous: bool, report: Report
    ) -> None:
        self._spec, self._spark, self._plan, self._store = spec, spark, plan, store
        self._continuous, self._report = continuous, report
        self._queries: dict[str, StreamingQuery] = {}
        self._progress = {flow.name: FlowProgress(flow.name, flow.output.name) for flow in plan.flows}
        self._started = int(time.time() * 1000)
        self._state_at = 0.0
        self._refreshed: dict[str, float] = {}
        self._attempts: dict[str, int] = {}
        self._stopping = False

    def stop(self) -> None:
        """Request a stop; safe in a signal handler."""
        self._stopping = True

    def run(self) -> list[FlowProgress]:
        waiting = list(self._plan.flows)
        try:
            while not self._stopping:
                self._start_ready(waiting)
                self._poll()
                if not waiting and not self._queries and not self._continuous:
                    break
                time.sleep(LOOK_EVERY_S)
                self._refresh_views()
        except BaseException as error:
            self._end_all("stopped")
            self._save("failed" if isinstance(error, Exception) else "stopped")
            raise
        self._end_all("stopped")
        self._save("stopped" if self._stopping else "finished")
        return list(self._progress.values())

    def _start_ready(self, waiting: list[PlannedFlow]) -> None:
        """Start flows. Continuous: all of them. Once: each when the flows that it reads have finished."""
        for flow in list(waiting):
            busy = {
                one.output.name for one in self._plan.flows if self._progress[one.name].state in ("waiting", "running")
            }
            if not self._continuous and (flow.reads & busy or len(self._queries) >= QUERIES_AT_ONCE):
                continue
            waiting.remove(flow)
            self._start(flow)

    def _start(self, flow: PlannedFlow) -> None:
        progress = self._progress[flow.name]
        progress.state = "running"
        try:
            if flow.output.kind == "view":
                self._compute(flow)
                progress.state = "running" if self._continuous else "finished"
            else:
                self._queries[flow.name] = self._begin(flow)
        except Exception as error:
            raise self._failed(flow.name, str(error)) from error

    def _begin(self, flow: PlannedFlow) -> StreamingQuery:
        """Start the query of a flow from its checkpoint, again if a transient error prevents it."""
        while True:
            try:
                return self._write(flow)
            except Exception as error:
                if not self._may_retry(flow.name, str(error)):
                    raise

    def _write(self, flow: PlannedFlow) -> StreamingQuery:
        settings = dict(flow.definition.settings)
        mode = settings.pop(OUTPUT_MODE, "append")
        trigger = settings.pop(TRIGGER, self._spec.trigger)
        checkpoint = self._store.checkpoint(flow.name)
        writer = flow.frame.writeStream.queryName(flow.name).outputMode(mode)
        writer = writer.option("checkpointLocation", checkpoint)
        writer = writer.trigger(processingTime=trigger) if self._continuous else writer.trigger(availableNow=True)
        kind, options = self._target(flow)
        before = {name: self._spark.conf.get(name, None) for name in settings}
        for name, value in settings.items():
            self._spark.conf.set(name, value)
        try:
            return writer.format(kind).options(**options).start()
        finally:
            for name, old in before.items():
                self._spark.conf.unset(name) if old is None else self._spark.conf.set(name, old)

    def _target(self, flow: PlannedFlow) -> tuple[str, dict[str, Any]]:
        output = flow.output
        kind = (output.format or "parquet").lower()
        if output.kind == "table":
            path = self._plan.path(output.name)
            return ("lake", {"format": kind, "path": path}) if kind in LAKE_FORMATS else (kind, {"path": path})
        options = dict(output.options)
        if kind == "lake" or kind in LAKE_FORMATS:
            path = str(options.get("path", output.name))
            # A relative path is relative to the pipeline's storage.
            options["path"] = path if path.startswith("/") or ":/" in path else f"{self._spec.storage}/{path}"
            return "lake", options if kind == "lake" else {"format": kind, **options}
        if kind != FORMAT:
            return kind, options
        options |= client_options(self._spec.bootstrap, self._spec.client, options)
        return ("kafka", sink_for_jvm(options)) if self._spec.is_jvm else (FORMAT, options)

    def _compute(self, flow: PlannedFlow) -> None:
        """Recompute a materialized view from the current contents of its sources."""
        began = time.monotonic()
        name = flow.output.name
        kind = (flow.output.format or "parquet").lower()
        writer = self._plan.fresh(flow).write
        writer = writer.format("lake").option("format", kind) if kind in LAKE_FORMATS else writer.format(kind)
        writer.mode("overwrite").save(self._plan.path(name))
        self._plan.refresh(flow.output)
        progress = self._progress[flow.name]
        progress.batch += 1
        progress.batch_ms = int((time.monotonic() - began) * 1000)
        self._refreshed[flow.name] = time.monotonic()

    def _refresh_views(self) -> None:
        for flow in self._plan.flows:
            at = self._refreshed.get(flow.name)
            if self._continuous and at is not None and time.monotonic() - at >= self._spec.refresh_s:
                try:
                    self._compute(flow)
                except Exception as error:
                    raise self._failed(flow.name, str(error)) from error

    def _poll(self) -> None:
        """Read the progress of every query; raise if one has failed."""
        for name, query in list(self._queries.items()):
            active = query.isActive
            self._progress[name].take(query.recentProgress)
            if active:
                continue
            error = query.exception()
            if error is not None and self._may_retry(name, str(error)):
                self._start(self._flow(name))
                continue
            if error is not None:
                raise self._failed(name, str(error))
            if self._continuous and not self._stopping:
                raise self._failed(name, "the query was stopped externally")
            self._progress[name].state = "finished"
            del self._queries[name]
            self._plan.refresh(self._flow(name).output)
        self._report(list(self._progress.values()))
        if time.monotonic() - self._state_at >= STATE_EVERY_S:
            self._save("running")

    def _may_retry(self, name: str, text: str) -> bool:
        """Return whether the error is transient and the flow has an attempt left."""
        self._attempts[name] = self._attempts.get(name, 0) + 1
        return is_transient(text) and self._attempts[name] < ATTEMPTS and not self._stopping

    def _flow(self, name: str) -> PlannedFlow:
        return next(flow for flow in self._plan.flows if flow.name == name)

    def _failed(self, name: str, text: str) -> FlowFailed:
        message = reason(text)
        self._progress[name].state, self._progress[name].error = "failed", message
        self._queries.pop(name, None)
        return FlowFailed(f"the flow {name!r} failed: {message}")

    def _end_all(self, state: str) -> None:
        """Let every query finish its current batch, then stop it."""
        deadline = time.monotonic() + DRAIN_S
        for name, query in self._queries.items():
            while time.monotonic() < deadline and query.isActive and query.status["isTriggerActive"]:
                time.sleep(0.05)
            query.stop()
            self._progress[name].take(query.recentProgress)
            self._progress[name].state = state
        self._queries.clear()
        self._report(list(self._progress.values()))

    def _save(self, state: str) -> None:
        self._state_at = time.monotonic()
        topics = [str(flow.output.options["topic"]) for flow in self._plan.flows if "topic" in flow.output.options]
        self._store.write_state(
            {
                "pipeline": self._spec.name,
                "state": state,
                "mode": "continuous" if self._continuous else "once",
                "pid": os.getpid(),
                "started": self._started,
                "updated": int(time.time() * 1000),
                "bootstrap": self._spec.bootstrap,
                "topics": sorted(set(topics)),
                "flows": [one.as_dict() for one in self._progress.values()],
            }
        )
