"""Planted bugs, each switched on by name: proof that the checkers see what they are there to see.

Every bug replaces something of the production code from outside; nothing in there knows of it.
docs/internals/simulator.md says which checker finds which, and after how many seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from penstock.replication.partition import Partition
from penstock.storage.flush import Flusher
from penstock.storage.log import Log

Patch = Any
BUGS: dict[str, Callable[[], list[Patch]]] = {}


def _bug(make: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    BUGS[make.__name__.replace("_", "-")] = make
    return make


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run with a bug in place; with no name, as things are."""
    with ExitStack() as stack:
        if name:
            for each in BUGS[name]():
                stack.enter_context(each)
        yield


@_bug
def ack_before_fsync() -> list[Patch]:
    """Everything written counts as durable at once."""
    appended = Log.append

    def append(self: Log, *arguments: Any, **named: Any) -> Any:
        result = appended(self, *arguments, **named)
        self.durable_offset = self.end_offset
        return result

    return [patch.object(Log, "append", append)]


@_bug
def fetch_beyond_high_watermark() -> list[Patch]:
    """Consumers are shown whatever is written."""

    def read(self: Partition, offset: int, *, max_bytes: int, committed_only: bool, at_least_one: bool) -> Any:
        if offset >= self.log.end_offset:
            return None
        return self.log.read(offset, max_bytes=max_bytes, end=self.log.end_offset, at_least_one=at_least_one)

    return [patch.object(Partition, "read", read)]


@_bug
def sync_tried_again() -> list[Patch]:
    """A failed sync is taken for a passing trouble."""
    finished = Flusher._finished

    def forgiving(self: Flusher, generation: int, job: Any, error: OSError | None) -> None:
        finished(self, generation, job, None)

    return [patch.object(Flusher, "_finished", forgiving)]
