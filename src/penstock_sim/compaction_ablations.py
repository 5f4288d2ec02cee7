"""Planted bugs of compaction. See ablations.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.storage.compaction.cleaner import Cleaner
from penstock.storage.compaction.key_map import KeyMap
from penstock_sim.bugs import Patch, bug, replaced


@bug
def newest_of_a_key_dropped() -> list[Patch]:
    """Drop the last record of a pass, as if the active segment started with a later one of its key."""

    def last_of(original: Any) -> Any:
        def beyond(self: KeyMap, key: bytes) -> int:
            found: int = original(self, key)
            return found + 1 if found == self.latest else found

        return beyond

    return [replaced(KeyMap, "last_of", last_of)]


@bug
def tombstones_dropped_at_once() -> list[Patch]:
    """Drop a tombstone in the second pass that finds it, before all consumers have read it."""

    def task(original: Any) -> Any:
        return lambda self, log, found: replace(original(self, log, found), delete_retention_ms=0)

    return [replaced(Cleaner, "_task", task)]


@bug
def aborted_writes_count() -> list[Patch]:
    """Let the last write of an aborted transaction for a key replace the committed value before it."""

    def task(original: Any) -> Any:
        return lambda self, log, found: replace(original(self, log, found), aborted=())

    return [replaced(Cleaner, "_task", task)]
