"""Samples the end offsets and the lag of groups of a cluster, for rates and for the history.

Samples are taken every 5 s, or less often if a sample takes long, so that the console uses at most a twentieth of a
core of the cluster and of its own.
"""

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock_console.history import FINE

if TYPE_CHECKING:
    from penstock.actions.cluster_client import ClusterClient
    from penstock_console.clusters import ClusterAccess

logger = logging.getLogger(__name__)

INTERVAL_S: Final = FINE.step_ms / 1000
SHARE_MAX: Final = 0.05

TopicPartition = tuple[str, int]


class GroupProgress(NamedTuple):
    """A group with its members and committed offsets."""

    group: str
    type: str
    state: str
    protocol: str
    coordinator: int
    members: tuple[Any, ...]
    committed: Mapping[TopicPartition, int]

    @property
    def topics(self) -> list[str]:
        owned = {topic for member in self.members for topic, _ in member.owned}
        return sorted(owned | {topic for topic, _ in self.committed})

    def lag(self, ends: Mapping[TopicPartition, int]) -> int:
        return sum(max(0, ends[place] - offset) for place, offset in self.committed.items() if place in ends)


class Ends(NamedTuple):
    """The end offsets of all partitions at one time."""

    at_ms: int
    latest: Mapping[TopicPartition, int]


def read_ends(cluster: "ClusterClient") -> Ends:
    from penstock.actions.cluster.offsets import LATEST, list_offsets

    return Ends(int(time.time() * 1000), list_offsets(cluster, LATEST))


def read_groups(cluster: "ClusterClient") -> dict[str, GroupProgress]:
    from penstock.sqlview.groups import group_progress

    found = {}
    for group, _, committed in group_progress(cluster):
        found[group.group_id] = GroupProgress(
            group.group_id, group.type, group.state.lower(), group.protocol, group.coordinator, group.members, committed
        )
    return found


class Sampler:
    """Takes one sample after the other."""

    def __init__(self, access: "ClusterAccess") -> None:
        self._access = access
        self._previous: Ends | None = None
        self._committed: Mapping[str, int] = {}
        self._is_failing = False

    def sample(self) -> float:
        """Take a sample; return the seconds to wait before the next one."""
        began = time.monotonic()
        try:
            self._take()
            self._is_failing = False
        except Exception as error:
            if not self._is_failing:
                logger.warning("cannot sample cluster %s: %s", self._access.name, error)
            self._is_failing = True
            self._previous = None
        cost = time.monotonic() - began
        return max(INTERVAL_S - cost, cost * (1 / SHARE_MAX - 1))

    def _take(self) -> None:
        access = self._access
        ends = access.ends(fresh_s=0.5)
        groups = access.groups(fresh_s=0.5)
        # Keeps it in the cache: otherwise the first page after a pause would wait for all topics of the cluster.
        access.metadata()
        history = access.history
        followed = {place for group in groups.values() for place in group.committed}
        history.add_ends(ends.at_ms, {place: ends.latest[place] for place in followed if place in ends.latest})
        values = self._rates(ends)
        committed: dict[str, int] = {}
        for name, group in groups.items():
            values[f"group.lag:{name}"] = float(group.lag(ends.latest))
            committed[name] = sum(group.committed.values())
            ages = [history.age_s(place, offset, ends.at_ms) for place, offset in group.committed.items()]
            known = [age for age in ages if age is not None]
            if known and len(known) == len(ages):
                values[f"group.seconds:{name}"] = max(known)
            if self._previous is not None and name in self._committed and ends.at_ms > self._previous.at_ms:
                seconds = (ends.at_ms - self._previous.at_ms) / 1000
                values[f"group.rate:{name}"] = max(0.0, (committed[name] - self._committed[name]) / seconds)
        self._previous, self._committed = ends, committed
        history.add(ends.at_ms, values)

    def _rates(self, ends: Ends) -> dict[str, float]:
        """Return the rate of the cluster and of its topics, the busiest first."""
        before = self._previous
        if before is None or ends.at_ms <= before.at_ms:
            return {}
        seconds = (ends.at_ms - before.at_ms) / 1000
        grown: dict[str, int] = {}
        for (topic, index), end in ends.latest.items():
            growth = end - before.latest.get((topic, index), end)
            grown[topic] = grown.get(topic, 0) + max(0, growth)
        total = sum(count for topic, count in grown.items() if not topic.startswith("__"))
        rates = {"cluster.rate": total / seconds}
        for topic, count in sorted(grown.items(), key=lambda each: -each[1]):
            rates[f"topic.rate:{topic}"] = count / seconds
        return rates
