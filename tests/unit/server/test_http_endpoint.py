"""Health and readiness, the counters of elections and ISR changes, and the lag of the event loop."""

import errno
import json
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.metadata import delta
from penstock.metadata.image import EMPTY
from penstock.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from penstock.metrics.metrics import Metrics
from penstock.metrics.values import Histogram
from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.server.changes import ChangeCounter
from penstock.server.http_endpoint import LOOP_CHECK_S, HttpEndpoint, LoopWatch
from tests.unit.metadata.samples import after, broker, topic, topic_id
from tests.unit.ports.ticking import TickingClock


async def ask(monitor: HttpEndpoint, path: str) -> tuple[int, str]:
    answer = monitor.answer(path)
    return answer.status, "".join([piece.decode() async for piece in answer.body])


def node(
    *,
    failure: OSError | None = None,
    refusal: OSError | None = None,
    leader: int | None = 1,
    fenced: bool = False,
    registered: bool = True,
) -> Any:
    records: list[Any] = [broker(1)] if registered else []
    if registered and not fenced:
        records.append(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1))
    _, image = after(EMPTY, records)
    store = SimpleNamespace(
        failure=failure,
        folder="/data",
        is_read_only=refusal is not None and failure is None,
        directory=SimpleNamespace(describe_refusal=lambda: "disk full: /data has 0.0 MiB free"),
    )
    return SimpleNamespace(store=store, quorum=SimpleNamespace(leader=leader, image=image), node_id=NodeId(1))


@pytest.mark.parametrize(
    ("context", "health", "ready"),
    [
        (node(), 200, 200),
        (None, 200, 503),
        (node(failure=OSError("no")), 503, 503),
        (node(leader=None), 200, 503),
        (node(fenced=True), 200, 503),
        (node(registered=False), 200, 503),
        (node(refusal=OSError(errno.ENOSPC, "No space left on device")), 200, 503),
    ],
    ids=["serving", "starting", "disk failed", "no quorum", "fenced", "unregistered", "disk full"],
)
async def test_health_describes_the_process_and_readiness_its_clients(context: Any, health: int, ready: int) -> None:
    monitor = HttpEndpoint(Metrics({}), lambda: context)
    status, body = await ask(monitor, "/health")
    assert (status, json.loads(body)["status"]) == (health, "ok" if health == 200 else "failed")
    status, body = await ask(monitor, "/ready")
    assert status == ready
    assert ("reason" in json.loads(body)) is (ready == 503)


async def test_a_full_disk_is_a_warning_in_health_and_the_node_is_not_ready() -> None:
    context = node(refusal=OSError(errno.ENOSPC, "No space left on device"))
    monitor = HttpEndpoint(Metrics({}), lambda: context)
    warnings = ["disk full: /data has 0.0 MiB free"]
    status, body = await ask(monitor, "/health")
    assert (status, json.loads(body)) == (200, {"status": "ok", "warnings": warnings})
    status, body = await ask(monitor, "/ready")
    assert (status, json.loads(body)) == (503, {"status": "failed", "reason": warnings[0], "warnings": warnings})
    assert "warnings" not in (await ask(HttpEndpoint(Metrics({}), node), "/health"))[1]


async def test_a_failed_folder_is_named() -> None:
    monitor = HttpEndpoint(Metrics({}), lambda: node(failure=OSError(errno.EIO, "Input/output error")))
    _, body = await ask(monitor, "/health")
    assert json.loads(body)["reason"] == "the data folder /data is offline: [Errno 5] Input/output error"


async def test_the_reason_does_not_name_the_topic_of_a_failed_file() -> None:
    failure = OSError(errno.EIO, "Input/output error", "/data/secret-0/00000000000000000000.log")
    _, body = await ask(HttpEndpoint(Metrics({}), lambda: node(failure=failure)), "/health")
    assert json.loads(body)["reason"] == "the data folder /data is offline: [Errno 5] Input/output error"


async def test_a_node_that_is_not_ready_warns_too() -> None:
    monitor = HttpEndpoint(Metrics({}), lambda: node(refusal=OSError("full"), fenced=True))
    status, body = await ask(monitor, "/ready")
    assert status == 503
    assert json.loads(body)["warnings"] == ["disk full: /data has 0.0 MiB free"]


async def test_the_response_to_an_unknown_path_lists_the_known_ones() -> None:
    assert (await ask(HttpEndpoint(Metrics({}), lambda: None), "/nothing"))[0] == 404
    assert "/metrics" in (await ask(HttpEndpoint(Metrics({}), lambda: None), "/"))[1]


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        ({"isr": (1,)}, {"isr_shrinks": 1}),
        ({"isr": (1,), "leader": 1}, {"isr_shrinks": 1}),
        ({"leader": 2, "isr": (2,)}, {"elections": 1}),
        ({"leader": 3, "isr": (3,)}, {"elections": 1}),
        ({"leader": 3, "isr": (3,), "leader_recovery_state": 1}, {"elections": 1, "unclean_elections": 1}),
        ({"leader": -1}, {}),
    ],
)
def test_elections_and_isr_changes_are_counted(change: dict[str, Any], counted: dict[str, int]) -> None:
    metrics = Metrics({})
    quorum: Any = SimpleNamespace(leader=1)
    counter = ChangeCounter(metrics, quorum, NodeId(1))
    _, image = after(EMPTY, topic("t", 1))
    record = PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), **change)
    counter.image_changed(*delta.apply(image, [record], offset=Offset(9), epoch=LeaderEpoch(1)))
    names = ("isr_shrinks", "isr_expands", "elections", "unclean_elections")
    assert {name: getattr(metrics, name).value for name in names if getattr(metrics, name).value} == counted


def test_a_late_timer_shows_as_lag() -> None:
    clock, lag = TickingClock(), Histogram()
    watch = LoopWatch(clock, lag)
    watch.start()
    clock.tick(LOOP_CHECK_S)
    assert (sum(lag.counts), lag.total_ns) == (1, 0)
    # The loop was busy: the timer is due, and runs half a second late.
    [ringer] = clock.waiting
    clock.now += LOOP_CHECK_S + 0.5
    ringer.cancel()
    ringer.callback()
    assert lag.total_ns == pytest.approx(0.5e9)
    watch.stop()
    assert not clock.waiting
