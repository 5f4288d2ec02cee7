"""Throttling of replicas that catch up: the byte rate over the last windows, compared with a limit.

A topic names its throttled replicas (`*.replication.throttled.replicas`), the broker sets the rate. In-sync replicas
are never throttled, because producers wait for them. Pure, except for the clock that it is given.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.config.settings import BrokerSettings, TopicSettings
from penstock.model.ids import NodeId

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

UNLIMITED: Final = 2**63 - 1
ALL: Final = "*"
LEADER: Final = "leader"
FOLLOWER: Final = "follower"


class Rate:
    """Bytes per second over a number of windows, the last of which is the current one."""

    def __init__(self, *, window_count: int, window_s: float) -> None:
        self._window_count = window_count
        self._window_s = window_s
        self._sizes: deque[tuple[float, int]] = deque()

    def add(self, size: int, now: float) -> None:
        begin = now - now % self._window_s
        if self._sizes and self._sizes[-1][0] == begin:
            size += self._sizes.pop()[1]
        self._sizes.append((begin, size))

    def measure(self, now: float) -> float:
        oldest = now - now % self._window_s - (self._window_count - 1) * self._window_s
        while self._sizes and self._sizes[0][0] < oldest:
            self._sizes.popleft()
        return sum(size for _, size in self._sizes) / max(now - oldest, self._window_s)


class Throttle:
    """The throttle of one side, LEADER or FOLLOWER."""

    def __init__(self, side: str, monotonic: Callable[[], float], settings: BrokerSettings) -> None:
        self._side = side
        self._monotonic = monotonic
        self._rate = Rate(
            window_count=settings.integer("replication.quota.window.num"),
            window_s=float(settings.integer("replication.quota.window.size.seconds")),
        )
        self._bytes_per_second = UNLIMITED
        self.passed = 0
        """Total bytes, throttled or not."""
        self.configure(settings)

    def configure(self, settings: BrokerSettings) -> None:
        self._bytes_per_second = settings.integer(f"{self._side}.replication.throttled.rate")

    def watches(self, partition: "Partition", node_id: NodeId, *, is_member: bool) -> bool:
        """Return whether the bytes of this replica count towards the rate."""
        if self._bytes_per_second == UNLIMITED or is_member:
            return False
        named = self._named(partition.log.settings)
        return bool(named) and (ALL in named or f"{partition.index}:{node_id}" in named)

    def holds_back(self, partition: "Partition", node_id: NodeId, *, is_member: bool) -> bool:
        """Return whether the replica must wait until the rate is below the limit."""
        return (
            self.watches(partition, node_id, is_member=is_member)
            and self._rate.measure(self._monotonic()) > self._bytes_per_second
        )

    def spend(self, size: int) -> None:
        self._rate.add(size, self._monotonic())

    def _named(self, settings: TopicSettings) -> tuple[str, ...]:
        if self._side == LEADER:
            return settings.leader_replication_throttled_replicas
        return settings.follower_replication_throttled_replicas
