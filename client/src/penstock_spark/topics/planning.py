"""Planning on the driver: the partitions, and where reading starts and ends.

`Planner` queries the cluster; penstock_client/offsets.py makes the decisions. Raises, with advice, for an unknown
topic, a partition without a starting offset, and an offset out of range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from penstock_client.errors import PenstockClientError
from penstock_client.offsets import Offsets, TopicPartition, check_within
from penstock_client.protocol.cluster import EARLIEST, LATEST, Cluster, Topic, unknown_topic
from penstock_spark.topics.options import Position, SourceOptions


class Planner:
    """The subscription, resolved again at each call."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.cluster: Cluster = options.connect.cluster()
        self.topics: dict[str, Topic] = {}

    @property
    def ids(self) -> dict[str, str]:
        return {name: topic.id_text for name, topic in self.topics.items()}

    def partitions(self) -> list[TopicPartition]:
        """Return the current partitions of the subscription."""
        options = self.options
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            found = self.cluster.refresh(None)
            self.topics = {
                name: topic for name, topic in found.items() if pattern.fullmatch(name) and not name.startswith("__")
            }
            if not self.topics:
                raise PenstockClientError(
                    f"no topic at {options.connect.bootstrap} matches subscribePattern {options.pattern!r}; "
                    f"there are {_some(found)}. The pattern must match the whole name."
                )
            return sorted((name, index) for name, topic in self.topics.items() for index in topic.leaders)
        names = list(options.assigned) if options.assigned is not None else list(options.topics)
        self.topics = self.cluster.refresh(names)
        for name in names:
            if name not in self.topics:
                raise unknown_topic(name, options.connect.bootstrap)
        if options.assigned is None:
            return sorted((name, index) for name, topic in self.topics.items() for index in topic.leaders)
        wanted = sorted((name, index) for name, chosen in options.assigned.items() for index in chosen)
        for name, index in wanted:
            self.cluster.leader(name, index)
        return wanted

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the end offsets: with read_committed, the first offset of the first open transaction."""
        return self.cluster.list_offsets(dict.fromkeys(partitions, LATEST), isolation=self.options.isolation)

    def resolve(self, position: Position, partitions: list[TopicPartition], side: str) -> Offsets:
        """Return the offset of each partition for names, timestamps or numbers."""
        if position.by_partition:
            wanted = self._given(position, partitions, side)
        else:
            wanted = dict.fromkeys(partitions, position.everywhere)
        if position.is_timestamp:
            return self._at_times(wanted)
        earliest, latest = self.earliest(partitions), self.latest(partitions)
        named = {EARLIEST: earliest, LATEST: latest}
        numbers = {one: named[offset][one] if offset in named else offset for one, offset in wanted.items()}
        return check_within(numbers, earliest, latest, fail=self.options.fail_on_data_loss)

    def _given(self, position: Position, partitions: list[TopicPartition], side: str) -> Offsets:
        given = {(name, index): offset for name, by in position.by_partition.items() for index, offset in by.items()}
        missing = [one for one in partitions if one not in given]
        surplus = [one for one in given if one not in set(partitions)]
        if missing or surplus:
            parts = []
            if missing:
                parts.append(f"lacks {_some(f'{name}-{index}' for name, index in missing)}")
            if surplus:
                parts.append(f"has {_some(f'{name}-{index}' for name, index in surplus)}, which is not read")
            word = "OffsetsByTimestamp" if position.is_timestamp else "Offsets"
            raise PenstockClientError(
                f"{side}{word} {' and '.join(parts)}: give every partition an offset (-2 is earliest, -1 latest)"
            )
        return given

    def _at_times(self, stamps: Mapping[TopicPartition, int]) -> Offsets:
        found = self.cluster.list_offsets(stamps, isolation=self.options.isolation)
        late = [one for one, offset in found.items() if offset < 0]
        if late:
            # No record has this timestamp or a later one: use the end.
            found.update(self.latest(late))
        return found


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    shown = ", ".join(listed[:5])
    return f"{shown} and {len(listed) - 5} more" if len(listed) > 5 else shown or "none"
