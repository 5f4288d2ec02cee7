"""Offsets that were committed as part of transactions which are still open.

Of each partition the offsets stand in the order of their records. A record that is newer and counts already, from
outside of transactions or of one that was committed meanwhile, has overtaken those before it: their marker
makes nothing of them, as the record with the highest offset is all that compaction keeps. Changes only
by records and markers; offsets.py decides.
"""

from collections.abc import Iterator, Mapping

from penstock.groups.records import OffsetCommitKey, OffsetCommitValue

ByProducer = Mapping[int, OffsetCommitValue | None]
"""By producer id, oldest record first. None: overtaken, and still waiting for the marker."""


class PendingOffsets:
    def __init__(self) -> None:
        self._by_group: dict[str, dict[OffsetCommitKey, dict[int, OffsetCommitValue | None]]] = {}
        self._keys: dict[int, dict[OffsetCommitKey, None]] = {}
        """What each producer has staged, in order."""

    # -- questions -------------------------------------------------------------------------

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
        """Everything, with the order that counts, to be compared."""
        return {
            key: tuple(by_producer.items()) for by_key in self._by_group.values() for key, by_producer in by_key.items()
        }

    # -- changes ---------------------------------------------------------------------------

    def stage(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        by_producer = self._by_group.setdefault(key.group, {}).setdefault(key, {})
        # Out first: it is the newest now.
        by_producer.pop(producer_id, None)
        by_producer[producer_id] = value
        self._keys.setdefault(producer_id, {})[key] = None

    def overtake(self, key: OffsetCommitKey) -> None:
        """A record outside of transactions is newer than all that wait."""
        by_producer = self._by_group.get(key.group, {}).get(key, {})
        for producer_id in by_producer:
            by_producer[producer_id] = None

    def drop(self, key: OffsetCommitKey) -> None:
        """The offset was deleted: nothing that was staged before brings it back."""
        for producer_id in list(self._by_group.get(key.group, {}).get(key, {})):
            self._remove(producer_id, key)

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Forget a producer's offsets; return those that count from here on."""
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
