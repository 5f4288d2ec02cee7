"""The definition of an attack and the limits that must hold during and after it.

The function of an attack runs in a separate process (attacker.py). It builds its frames, calls `gate.open()`, which
returns when the campaign has measured the idle node, and attacks until it is done or the time is over. It returns
counts for the report, and adds violations to `gate.broken`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """The node under attack."""

    host: str
    port: int
    data: str
    http_port: int = 0
    """The port of /health and /metrics; 0 if the node has none, as with Apache Kafka."""
    tls_port: int = 0
    """The port of the listener with TLS, in attacks with `uses_tls`."""
    seed: int = 1
    scale: float = 1.0
    """The fraction of an attack: the tests run a small part of each."""

    @property
    def trigger(self) -> Path:
        """Return the file that says which reads fail (unreadable.c), in attacks with `reads_may_fail`."""
        return Path(self.data).parent / "unreadable"

    def of(self, count: int) -> int:
        """Scale a number to this campaign."""
        return max(1, int(count * self.scale))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Gate:
    """The barrier at which an attacker waits for the start, and the duration of the attack."""

    wait: Callable[[], float]
    """Report that all is prepared; return how many seconds the attack may last."""
    seconds: float = 0.0
    ends: float = 0.0
    broken: list[str] = field(default_factory=list)

    def open(self) -> None:
        self.seconds = self.wait()
        self.ends = time.monotonic() + self.seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self.ends - time.monotonic())

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds and otherwise not in self.broken:
            self.broken.append(otherwise)


Counts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of an attack's effects. Latencies are those of the well-behaved client's small requests."""

    p99_ms: float = 500.0
    p99_ratio: float = 10.0
    """The maximum p99: this many times the idle p99, or `P99_FLOOR_MS`, and never more than `p99_ms`."""
    max_ms: float = 2_000.0
    large_max_ms: float = 5_000.0
    """The slowest request of 900 KB."""
    memory_mb: float = 200.0
    """Growth of the resident memory during the attack."""
    memory_after_mb: float = 150.0
    """Growth that may remain after the attack: allocators do not return everything."""
    files_kept: int = 8
    """Descriptors other than sockets that may remain: logs of topics that the attack created."""
    health_ms: float = 2_000.0
    """The slowest response of /health."""
    gap_ms: float = 1_000.0
    """The longest time without a response to ApiVersions, on a shared machine."""
    loop_held_ms: float = 10.0
    """The longest time that a request may block the event loop, if the node measures it.

    Applies to CPU time always, and to elapsed time where the machine is idle; see `campaign.over_bounds`.
    """
    recovery_s: float = 10.0
    """How long after the attack its last socket may stay open."""


# Below this a ratio depends more on the machine than on the node.
P99_FLOOR_MS = 200.0
DEFAULT_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    name: str
    family: str
    what: str
    run: Callable[[Target, Gate], Counts]
    prepare: Callable[[Target], None] | None = None
    """Creates the topics of the attack, before the node is measured."""
    bounds: Bounds = DEFAULT_BOUNDS
    seconds_min: float = 0.0
    """The minimum duration: some attacks are stopped only by a time limit of the node."""
    settings: Mapping[str, str] = field(default_factory=dict)
    compared: bool = False
    """Whether `--peer kafka` runs it against Apache Kafka too."""
    uses_tls: bool = False
    """Whether the node has a listener with TLS, too."""
    reads_may_fail: bool = False
    """Whether the node runs with the library that makes reads fail once `Target.trigger` is written."""
    log_may_complain: bool = False
    """Whether the node may log errors, as for damaged files."""
