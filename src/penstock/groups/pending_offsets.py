"""Offsets committed by transactions that are still open.

The offsets of each partition are in the order of their records. A newer record that is already effective
(committed without a transaction, or by one that has ended) supersedes those before it: their commit marker then has
no effect on the partition, because compaction keeps only the record with the highest offset. Changed only
by records and markers; offsets.py decides.
"""

from collections.abc import Iterator, Mapping

from penstock.groups.records import OffsetCommitKey, OffsetCommitValue

ByProducer = Mapping[int, OffsetCommitValue | None]
"""By producer id, oldest record first. None for a superseded value whose marker has not arrived."""


class PendingOffsets:
    def __init__(self) -> None:
        self._by_group: dict[str, dict[OffsetCommitKey, dict[int, OffsetCommitValue | None]]] = {}
        self._keys: dict[int, dict[OffsetCommitKey, None]] = {}
        """The keys that each producer has staged, in order."""

    # -- queries ---------------------------------------------------------------------------

    def __contains__(self, key: OffsetCommitKey) -> bool:
        return key in self._by_group.get(key.group, {})

    def __bool__(self) -> bool:
        return bool(self._by_group)

    @property
    def groups(self) -> Iterator[str]:
        return iter(self._by_group)

    def of(self, group_id: str) -> Mapping[OffsetCommitKey, ByProducer]:
        return self._by_group.get(group_id, {})

    def snapshot(self) -> dict[OffsetCommitKey, tuple[tuple[int, OffsetCommitValue | None], ...]]:
        """Return all pending offsets in their order, for comparison."""
        return {
            key: tuple(by_producer.items()) for by_key in self._by_group.values() for key, by_producer in by_key.items()
        }

    # -- changes ---------------------------------------------------------------------------

    def stage(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        by_producer = self._by_group.setdefault(key.group, {}).setdefault(key, {})
        # Removed first, so that the producer moves to the end: its record is the newest.
        by_producer.pop(producer_id, None)
        by_producer[producer_id] = value
        self._keys.setdefault(producer_id, {})[key] = None

    def supersede(self, key: OffsetCommitKey) -> None:
        """Mark all pending values of the key as superseded by a newer record without a transaction."""
        by_producer = self._by_group.get(key.group, {}).get(key, {})
        for producer_id in by_producer:
            by_producer[producer_id] = None

    def drop(self, key: OffsetCommitKey) -> None:
        """Remove all pending values of a deleted offset, so that no marker restores it."""
        for producer_id in list(self._by_group.get(key.group, {}).get(key, {})):
            self._remove(producer_id, key)

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Remove a producer's offsets; return those that are committed now."""
        counting: list[tuple[OffsetCommitKey, OffsetCommitValue]] = []
        for key in list(self._keys.get(producer_id, ())):
            by_producer = self._by_group[key.group][key]
            value = by_producer[producer_id]
            if is_commit and value is not None:
                counting.append((key, value))
                for other in by_producer:
                    if other == producer_id:
                        break
                    by_producer[other] = None
            self._remove(producer_id, key)
        return counting

    def _remove(self, producer_id: int, key: OffsetCommitKey) -> None:
        by_key = self._by_group[key.group]
        del by_key[key][producer_id]
        if not by_key[key]:
            del by_key[key]
        if not by_key:
            del self._by_group[key.group]
        del self._keys[producer_id][key]
        if not self._keys[producer_id]:
            del self._keys[producer_id]
