"""Pipelines on Spark: the state of their last run, and the lag of their checkpoints. Starts no Spark."""

import time
from typing import Any, Final

from penstock_client.errors import PenstockClientError
from penstock_console.endpoints import Call, Endpoint
from penstock_console.errors import not_found
from penstock_console.settings import PipelineSettings

SILENT_MS: Final = 30_000


def show_pipelines(call: Call) -> dict[str, Any]:
    return {"pipelines": [_summary(_read(call, each)) for each in call.console.settings.pipelines]}


def show_pipeline(call: Call) -> dict[str, Any]:
    for each in call.console.settings.pipelines:
        found = _read(call, each)
        if found["name"] == call["name"]:
            return found
    raise not_found(f"The console knows no pipeline '{call['name']}'.", hint="Start the console with --pipeline DIR.")


def failed_flows(call: Call) -> list[tuple[str, str, str]]:
    """Return the pipeline, the name and the error of each flow that has failed in the last run."""
    read = [_read(call, each, with_lag=False) for each in call.console.settings.pipelines]
    return [
        (pipeline["name"], flow["name"], flow["error"] or "")
        for pipeline in read
        for flow in pipeline["flows"]
        if flow["state"] == "failed"
    ]


def _summary(pipeline: dict[str, Any]) -> dict[str, Any]:
    flows = pipeline["flows"]
    lags = [flow["lag"] for flow in flows if flow["lag"] is not None]
    return {
        **{name: pipeline[name] for name in ("name", "state", "problem", "updated_ms")},
        "flows": len(flows),
        "failed": sum(flow["state"] == "failed" for flow in flows),
        "lag": sum(lags) if lags else None,
    }


def _read(call: Call, pipeline: PipelineSettings, *, with_lag: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": pipeline.folder.name,
        "state": "unknown",
        "problem": None,
        "mode": None,
        "pid": None,
        "updated_ms": None,
        "storage": pipeline.storage,
        "folder": str(pipeline.folder),
        "flows": [],
    }
    try:
        spec = _fill(found, call, pipeline)
        if with_lag and found["flows"]:
            _add_checkpoints(found, spec)
    except ImportError as error:
        found["problem"] = f"Pipelines need {error.name}: run pip install 'penstock[spark]'."
    except PenstockClientError as error:
        found["problem"] = str(error)
    return found


def _fill(found: dict[str, Any], call: Call, pipeline: PipelineSettings) -> Any:
    """Add the state of the last run; return the spec of the pipeline."""
    from penstock_spark.pipelines.spec import load_spec
    from penstock_spark.pipelines.store import Store

    connection = call.access.connection
    given = {f"penstock.kafka.{name}": value for name, value in connection.properties.items()}
    spec = load_spec(pipeline.folder, given).with_changes(
        storage=pipeline.storage, bootstrap=connection.bootstrap, provider=None
    )
    found |= {"name": spec.name, "storage": spec.storage}
    state = Store(spec.storage).state()
    if state is None:
        found["state"], found["problem"] = "never run", "The pipeline has not run yet."
        return spec
    found |= {
        "state": state["state"],
        "mode": state["mode"],
        "pid": state["pid"],
        "updated_ms": state["updated"],
        "flows": [{**flow, "checkpoint": []} for flow in state["flows"]],
    }
    if state["state"] == "running" and time.time() * 1000 - state["updated"] > SILENT_MS:
        found["state"] = "silent"
        found["problem"] = "The run was killed, or its machine is down: it has not reported for 30 s."
    return spec


def _add_checkpoints(found: dict[str, Any], spec: Any) -> None:
    from penstock_spark.pipelines.lag import lag_rows

    checkpoints: dict[str, list[dict[str, Any]]] = {}
    for row in lag_rows(spec):
        part = {name: row[name] for name in ("topic", "partition", "offset", "end", "lag")}
        checkpoints.setdefault(row["flow"], []).append(part)
    for flow in found["flows"]:
        flow["checkpoint"] = checkpoints.get(flow["name"], [])


ENDPOINTS = (
    Endpoint(path="pipelines", doc="Pipelines and their state.", read=show_pipelines),
    Endpoint(path="pipelines/{name}", doc="The flows of a pipeline.", read=show_pipeline),
)
