"""An attack: what it does to a node, and what must hold while and after it does.

The function of an attack runs in its own process (attacker.py). It builds its frames, calls `gate.open()`, which
returns when the campaign has measured the quiet node, and attacks until it is done or the time is over. It returns
counts for the report, and adds to `gate.broken` what the node did that it must not do.
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
    """Where /health and /metrics are; 0 if the node has no such port, as Apache Kafka."""
    seed: int = 1
    scale: float = 1.0
    """How much of an attack there is: the tests run a small share of each."""

    @property
    def trigger(self) -> Path:
        """Where to write which reads fail (unreadable.c), in attacks with `reads_may_fail`."""
        return Path(self.data).parent / "unreadable"

    def of(self, count: int) -> int:
        """So many of something, at the scale of this campaign."""
        return max(1, int(count * self.scale))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Gate:
    """What an attacker waits at until it may begin, and how long it may go on afterwards."""

    wait: Callable[[], float]
    """Say that all is prepared; returns how many seconds the attack may last."""
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
    """What an attack may cost. Latencies are those of the innocent client's small requests."""

    p99_ms: float = 500.0
    p99_ratio: float = 10.0
    """The p99 may be this many times the quiet p99, or `P99_FLOOR_MS`, and never more than `p99_ms`."""
    max_ms: float = 2_000.0
    large_max_ms: float = 5_000.0
    """The slowest request of 900 KB."""
    memory_mb: float = 200.0
    """Growth of the resident memory while the attack lasts."""
    memory_after_mb: float = 150.0
    """Growth that may remain when the attackers are gone: allocators do not return everything."""
    files_kept: int = 8
    """Descriptors that are no sockets and may stay: logs of topics that the attack made."""
    health_ms: float = 2_000.0
    """The slowest answer of /health."""
    gap_ms: float = 1_000.0
    """The longest time without an answer to ApiVersions, on a machine with other work too."""
    loop_held_ms: float = 10.0
    """The longest time that a request may hold the event loop, where the node measures it.

    The node measures wall time, so this is for a machine without other work; see `campaign.over_bounds`.
    """
    recovery_s: float = 10.0
    """How long after the attack the last of its sockets may be open."""


# Below this a ratio says more about the machine than about the node.
P99_FLOOR_MS = 200.0
DEFAULT_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    name: str
    family: str
    what: str
    run: Callable[[Target, Gate], Counts]
    prepare: Callable[[Target], None] | None = None
    """Makes the topics that the attack needs, before the node is measured."""
    bounds: Bounds = DEFAULT_BOUNDS
    seconds_min: float = 0.0
    """Some attacks are held only by a time limit of the node: they need to last longer than that."""
    settings: Mapping[str, str] = field(default_factory=dict)
    compared: bool = False
    """Whether `--peer kafka` runs it against Apache Kafka too."""
    reads_may_fail: bool = False
    """Whether the node runs with the library that makes reads fail once `Target.trigger` is written."""
    log_may_complain: bool = False
    """Whether the node may log errors: damaged files are an error."""
