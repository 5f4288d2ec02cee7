"""The lag of flows, computed from Spark's checkpoints and the broker, without a Spark session."""

from __future__ import annotations

from typing import Any

from penstock_client.offsets import Offsets
from penstock_client.protocol.cluster import LATEST, READ_COMMITTED
from penstock_spark.pipelines.spec import Spec
from penstock_spark.pipelines.store import Store


def lag_rows(spec: Spec) -> list[dict[str, Any]]:
    """Return a row for each partition that a flow reads. `end` is None if the topic does not exist."""
    store = Store(spec.storage)
    found = [(flow, *done) for flow in store.flows() if (done := store.offsets(flow)) is not None]
    ends = _ends(spec, {place for _, _, offsets in found for place in offsets})
    rows = []
    for flow, batch, offsets in found:
        for (topic, partition), offset in sorted(offsets.items()):
            end = ends.get((topic, partition))
            rows.append(
                {
                    "flow": flow,
                    "batch": batch,
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "end": end,
                    "lag": None if end is None else max(0, end - offset),
                }
            )
    return rows


def _ends(spec: Spec, partitions: set[tuple[str, int]]) -> Offsets:
    if not partitions:
        return {}
    with spec.cluster(deadline_s=10.0, request_timeout_s=10.0) as cluster:
        topics = cluster.refresh(sorted({name for name, _ in partitions}))
        there = [(name, index) for name, index in partitions if name in topics and index in topics[name].leaders]
        return cluster.list_offsets(dict.fromkeys(there, LATEST), isolation=READ_COMMITTED)
