"""One attack against one new node: measure it idle, attack it, let it recover, and judge.

The order: start the node, the well-behaved client, the probe and the attacker, which waits; measure the idle node; open
the attacker's gate; end the attacker when it is done; wait for its sockets to close; read back what the well-behaved
client wrote. All processes use the same monotonic clock, so that samples can be assigned to phases.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tests.abuse.attack import P99_FLOOR_MS, Attack, Bounds, Target
from tests.abuse.child import Child, ChildFailed
from tests.abuse.innocent import waits_of
from tests.abuse.preload import NoCompiler, read_faults
from tests.abuse.watch import LoopHeld, Usage, Watch, faults, loop_held, slowdown, usage, waited_ms_max
from tests.support.apache_kafka import ApacheKafka
from tests.support.penstock_process import PenstockProcess
from tests.support.ports import HOST, answers, free_ports
from tests.support.security import Certificates

BUILD_S_MAX = 120.0
GRACE_S = 60.0
"""How long after its time an attacker may still wait for a response."""
SLOW = 3.0
OURS = "Penstock"
QUIET_COUNT_MIN = 20
"""The minimum number of requests of an idle node for a meaningful p99."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the node is observed before and after an attack."""

    warm_up_s: float = 1.0
    quiet_s: float = 3.0
    settle_s: float = 1.0


PACE = Pace()


class Node(Protocol):
    """The common interface of Penstock and Apache Kafka."""

    name: str

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Latency:
    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    attack: str
    family: str
    node: str
    seconds: float
    quiet: Latency
    small: Latency
    large: Latency
    memory_mb: tuple[float, float, float]
    """Before, peak, and after."""
    descriptors: tuple[int, int, int]
    gap_ms: float
    """The longest time without a response to the probe, and how late the probe itself was."""
    late_ms: float
    quiet_gap_ms: float
    loop: LoopHeld | None
    waited_ms: float
    """The maximum time that the node's thread waited for a CPU within a tenth of a second."""
    slowdown: float
    """The factor by which its work took longer because it had to wait."""
    health_ms: float
    counts: dict[str, float]
    broken: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.broken

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


def run(
    attack: Attack, *, seconds: float, seed: int = 1, scale: float = 1.0, peer: str = "penstock",
    pace: Pace = PACE, progress: Callable[[str], None] = lambda _: None, exact_seconds: bool = False,
    bounds: Bounds | None = None,
) -> Result:  # fmt: skip
    """Run an attack for this many seconds, or longer if the attack needs it unless `exact_seconds`."""
    attack = replace(attack, bounds=bounds or attack.bounds)
    length = seconds if exact_seconds else max(seconds, attack.seconds_min)
    with ExitStack() as stack:
        progress("starting")
        node: PenstockProcess | ApacheKafka
        (http_port,) = free_ports(1)
        if peer == "kafka":
            http_port = 0
            node = stack.enter_context(ApacheKafka(quick=False))
        else:
            settings = {"metrics.listener": f"http://{HOST}:{http_port}", **attack.settings}
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-abuse-")))
            environment = read_faults(folder / "unreadable", stack) if attack.reads_may_fail else {}
            listeners = {"TLS": "SSL"} if attack.uses_tls else None
            if attack.uses_tls:
                settings |= Certificates(folder).broker_options()
            started = PenstockProcess(
                properties=settings, data=folder / "data", environment=environment, listeners=listeners
            )
            node = stack.enter_context(started)
        port = _port_of(node.bootstrap)
        tls_port = _port_of(node.address("TLS")) if attack.uses_tls else 0
        target = Target(HOST, port, str(node.data), http_port, tls_port, seed, scale)
        if attack.prepare is not None:
            progress("preparing")
            attack.prepare(target)
        observed = _observe(attack, node, target, length, pace, progress, stack)
        log = node.log if isinstance(node, PenstockProcess) else ""
        return _judged(attack, node.name, length, observed, [] if attack.log_may_complain else faults(log))


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@dataclass
class _Observed:
    """All observations, before they are judged."""

    quiet_from: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    watch: Watch | None = None
    before: Usage | None = None
    after: Usage | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[tuple[float, float, float]] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    loop: LoopHeld | None = None


def _observe(
    attack: Attack, node: Node, target: Target, length: float, pace: Pace,
    progress: Callable[[str], None], stack: ExitStack,
) -> _Observed:  # fmt: skip
    seen = _Observed()
    words = json.dumps(target.as_json())

    def child(module: str, *more: str) -> Child:
        made = Child(f"tests.abuse.{module}", words, *more)
        stack.callback(made.end)
        return made

    attacker = child("attacker", attack.name)
    attacker.receive(seconds_max=BUILD_S_MAX)
    innocent, probe = child("innocent"), child("probe")
    for each in (innocent, probe):
        each.receive(seconds_max=BUILD_S_MAX)
    watch = seen.watch = Watch(node.pid, target)
    stack.callback(watch.stop)
    progress("quiet")
    time.sleep(pace.warm_up_s)
    seen.quiet_from = time.monotonic()
    time.sleep(pace.quiet_s)
    seen.before = usage(node.pid)
    loop_before = loop_held(target)
    seen.began = time.monotonic()
    attacker.send(length)
    _follow(attacker, seen, length, progress)
    seen.ended = time.monotonic()
    attacker.end()
    progress("recovering")
    _recover(node, seen, attack.bounds, pace)
    if not answers(target.port):
        seen.broken.append("the node does not respond")
    seen.loop = loop_held(target)
    if seen.loop is not None and loop_before is not None:
        seen.loop = seen.loop.since(loop_before)
    for each in (innocent, probe):
        each.send("stop")
    report = innocent.receive(seconds_max=180)
    seen.samples = report["samples"]
    seen.broken += report["missing"]
    seen.gaps = [tuple(gap) for gap in probe.receive(seconds_max=60)]
    watch.stop()
    return seen


def _follow(attacker: Child, seen: _Observed, length: float, progress: Callable[[str], None]) -> None:
    """Wait until the attacker is done."""
    while not attacker.has_answer():
        passed = time.monotonic() - seen.began
        assert seen.watch is not None
        if seen.watch.usages:
            latest = seen.watch.usages[-1]
            progress(f"{passed:3.0f}/{length:.0f} s, {latest.memory_mb:.0f} MB, {latest.descriptors} descriptors")
        if passed > length + GRACE_S:
            seen.broken.append(f"the attacker still waits for a response {GRACE_S:.0f} s after its time")
            return
        time.sleep(0.1)
    report = attacker.receive(seconds_max=1)
    seen.counts, seen.broken = report["counts"], seen.broken + report["broken"]


def _recover(node: Node, seen: _Observed, bounds: Bounds, pace: Pace) -> None:
    """Wait until the attacker's sockets are closed, and a little longer for memory to be released."""
    assert seen.before is not None
    deadline = time.monotonic() + bounds.recovery_s
    try:
        while True:
            seen.after = usage(node.pid)
            if seen.after.sockets <= seen.before.sockets:
                break
            if time.monotonic() > deadline:
                more = seen.after.sockets - seen.before.sockets
                seen.broken.append(f"{more} more sockets than before are open after {bounds.recovery_s:.0f} s")
                break
            time.sleep(0.1)
        time.sleep(pace.settle_s)
        seen.after = usage(node.pid)
    except OSError:
        seen.broken.append("the node died")


def _judged(attack: Attack, node: str, length: float, seen: _Observed, errors: Sequence[str]) -> Result:
    assert seen.watch is not None and seen.before is not None
    after = seen.after or seen.before
    during = [each for each in seen.watch.usages if seen.began <= each.at <= seen.ended] or [seen.before]
    healths = [each for each in seen.watch.healths if each.at >= seen.began]
    gaps = [gap for gap in seen.gaps if seen.began <= gap[0] <= seen.ended]
    worst = max(gaps, key=lambda gap: gap[1], default=(0.0, 0.0, 0.0))
    result = Result(
        attack=attack.name,
        family=attack.family,
        node=node,
        seconds=seen.ended - seen.began,
        quiet=latency(seen.samples, "small", seen.quiet_from, seen.began, is_quiet=True),
        small=latency(seen.samples, "small", seen.began, seen.ended),
        large=latency(seen.samples, "large", seen.began, seen.ended),
        memory_mb=(seen.before.memory_mb, max(each.memory_mb for each in during), after.memory_mb),
        descriptors=(seen.before.descriptors, max(each.descriptors for each in during), after.descriptors),
        gap_ms=worst[1],
        late_ms=worst[2],
        quiet_gap_ms=max((gap[1] for gap in seen.gaps if seen.quiet_from <= gap[0] < seen.began), default=0.0),
        loop=seen.loop,
        waited_ms=waited_ms_max(during),
        slowdown=slowdown(during),
        health_ms=max((each.took_ms for each in healths), default=0.0),
        counts=seen.counts,
        broken=[*seen.broken, *(f"the log has: {line[:300]}" for line in dict.fromkeys(errors[:6]))],
    )
    result.broken.extend(over_bounds(result, attack.bounds))
    files = after.files - seen.before.files
    if files > attack.bounds.files_kept:
        result.broken.append(f"{files} more files than before are open")
    refused = [each.error for each in healths if each.error]
    if refused:
        result.broken.append(f"/health failed {len(refused)} of {len(healths)} times: {refused[0]}")
    return result


def over_bounds(result: Result, bounds: Bounds) -> list[str]:
    quiet = result.quiet
    # On a machine that is slow without an attack, or that is busy, the limits are relaxed.
    p99_cap, max_cap = max(bounds.p99_ms, SLOW * quiet.p99_ms), max(bounds.max_ms, SLOW * quiet.max_ms)
    p99_max = p99_cap + result.waited_ms
    if quiet.count >= QUIET_COUNT_MIN:
        p99_max = min(p99_cap, max(P99_FLOOR_MS, bounds.p99_ratio * quiet.p99_ms)) + result.waited_ms
    before, peak, after = result.memory_mb
    # Elapsed time includes time when other processes had the CPU, CPU time no time when the thread was blocked:
    # together they are exact where the machine is idle, and on a busy one work on the loop has no allowance.
    held_max = bounds.loop_held_ms * result.slowdown + result.waited_ms
    loop = result.loop or LoopHeld(0.0, {}, {})
    checks = (
        (result.loop is not None or result.node != OURS, "the node did not report how long its event loop was blocked"),
        (not result.small.failures, f"small requests failed: {result.small.failures[:2]}"),
        (not result.large.failures, f"requests of 900 KB failed: {result.large.failures[:2]}"),
        (result.small.p99_ms <= p99_max, f"p99 {result.small.p99_ms:.0f} ms, allowed {p99_max:.0f}"),
        (result.small.max_ms <= max_cap, f"max {result.small.max_ms:.0f} ms, allowed {max_cap:.0f}"),
        (
            result.large.max_ms <= bounds.large_max_ms,
            f"900 KB max {result.large.max_ms:.0f} ms, allowed {bounds.large_max_ms:.0f}",
        ),
        (peak - before <= bounds.memory_mb, f"memory grew by {peak - before:.0f} MB, allowed {bounds.memory_mb:.0f}"),
        (
            after - before <= bounds.memory_after_mb,
            f"{after - before:.0f} MB more are held afterwards, allowed {bounds.memory_after_mb:.0f}",
        ),
        (
            result.health_ms <= bounds.health_ms,
            f"/health took {result.health_ms:.0f} ms, allowed {bounds.health_ms:.0f}",
        ),
        (
            result.gap_ms <= bounds.gap_ms,
            f"no client received a response for {result.gap_ms:.0f} ms, allowed {bounds.gap_ms:.0f}",
        ),
        (
            loop.request_ms <= held_max,
            f"the event loop was blocked by {_worst(loop.by_api_ms)} ms, allowed {held_max:.0f}",
        ),
        (
            loop.request_cpu_ms <= bounds.loop_held_ms,
            f"CPU time without a break: {_worst(loop.cpu_by_api_ms)} ms, allowed {bounds.loop_held_ms:.0f}",
        ),
    )
    return [otherwise for holds, otherwise in checks if not holds]


def _worst(by_api: Mapping[str, float]) -> str:
    worst = sorted(by_api.items(), key=lambda each: -each[1])[:3]
    return ", ".join(f"{name} {held:.0f}" for name, held in worst)


def latency(
    samples: Sequence[dict[str, Any]], kind: str, begin: float, end: float, *, is_quiet: bool = False
) -> Latency:
    """Return the latency of the well-behaved client's requests in flight during a phase, or only within an idle one."""

    def is_meant(began: float, ended: float) -> bool:
        return begin <= began and ended < end if is_quiet else began < end and begin < ended

    chosen = [
        each
        for each in samples
        if each["kind"].startswith(kind) and is_meant(each["began"], each["began"] + each["took_ms"] / 1000)
    ]
    times = sorted(wait for each in chosen for wait in waits_of(kind, each["took_ms"]))
    if not times:
        return Latency(0, 0.0, 0.0, 0.0)
    failures = tuple(each["error"] for each in chosen if each["error"])
    return Latency(len(chosen), _quantile(times, 0.50), _quantile(times, 0.99), times[-1], failures)


def _quantile(times: Sequence[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))]


__all__ = ["ChildFailed", "Latency", "NoCompiler", "Pace", "Result", "latency", "over_bounds", "run"]
