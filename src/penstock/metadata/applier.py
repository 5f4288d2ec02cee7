"""The application of committed records to images: this node's own commits directly, all others from the log.

Owns the published image, pending commits and checkpoints. Called by `quorum.py` when the high
watermark advances or a leader's snapshot was loaded. Calls `replay.py`, `publisher.py` and `checkpointer.py`.
Refuses: Corruption.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.config.settings import BrokerSettings
from penstock.metadata.checkpointer import Checkpointer
from penstock.metadata.delta import Delta
from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.publisher import Publisher
from penstock.metadata.replay import NOTHING, replay
from penstock.metadata.snapshot import Snapshot
from penstock.metadata.voters import VoterRegistry
from penstock.model.ids import Offset
from penstock.ports.clock import Clock, Timer
from penstock.raft.messages import EpochEnd
from penstock.storage.log import Log

RECORDS_PER_SLICE: Final = 300
"""Applied in one turn of the event loop, or those of one larger commit: each takes about 12 microseconds."""


@dataclass(slots=True)
class Pending:
    """Records that are written but not yet committed."""

    last_offset: Offset
    delta: Delta
    image: Image
    timestamp: int
    size: int
    done: "asyncio.Future[None]"


class Applier:
    def __init__(
        self,
        *,
        clock: Clock,
        log: Log,
        newest: Snapshot | None,
        voter_registry: VoterRegistry,
        settings: BrokerSettings,
        on_dropped: Callable[[EpochEnd], None],
        on_due: Callable[[], None],
    ) -> None:
        """`on_due` is called when `resume` must be called, because `apply` has left something."""
        self.publisher = Publisher()
        self.pending: deque[Pending] = deque()
        self._clock = clock
        self._log = log
        self._voter_registry = voter_registry
        self._settings = settings
        self._on_dropped = on_dropped
        self._on_due = on_due
        self._mark = Offset(0)
        self._timer: Timer | None = None
        # The checkpoint to start from, until a checkpointer knows it.
        self._newest = newest
        self._current = newest or NOTHING
        """The newest applied image or, before the first, the checkpoint to start from."""
        self._checkpointer: Checkpointer | None = None

    @property
    def image(self) -> Image:
        return self.publisher.image

    def apply(self, mark: Offset) -> None:
        """Publish everything below the mark; what takes long is continued in the next turn of the event loop."""
        self._mark = mark
        if self._timer is None:
            self.resume()

    def finish(self) -> None:
        """Publish the rest of what is below the mark now."""
        while self._timer is not None:
            self._timer.cancel()
            self.resume()

    def resume(self) -> None:
        """Publish the next images below the mark."""
        self._timer = None
        ends = self._current.image.offset + RECORDS_PER_SLICE
        for _ in self._publish_next():
            if self._current.image.offset >= ends:
                self._timer = self._clock.call_later(0, self._on_due)
                return

    def _publish_next(self) -> Iterator[None]:
        """Publish one image after the other."""
        while self.pending and self.pending[0].last_offset < self._mark:
            pending = self.pending.popleft()
            self._publish(pending.delta, Snapshot(pending.image, pending.timestamp), pending.size)
            if not pending.done.done():
                pending.done.set_result(None)
            yield
        if self.pending:
            return
        # The checkpoint alone is the first image when the log has nothing after it.
        is_first = self.image is EMPTY
        if self._current.image.offset + 1 < self._mark or (
            is_first and 0 < self._current.image.offset + 1 == self._mark
        ):
            for step in replay(self._log, self._current, self._mark, is_first=is_first):
                self._publish(step.delta, Snapshot(step.image, step.timestamp), step.size)
                yield

    def replace(self, snapshot: Snapshot) -> None:
        """Publish a leader's snapshot, after which the log restarts."""
        self.stop()
        self._mark = Offset(snapshot.image.offset + 1)
        self._newest, self._checkpointer = snapshot, None
        before = self.image
        whole = before is EMPTY
        self._publish(Delta.whole(snapshot.image) if whole else difference(before, snapshot.image), snapshot, 0)

    def fail_pending(self, error: Exception) -> None:
        waiting, self.pending = self.pending, deque()
        for pending in waiting:
            if not pending.done.done():
                pending.done.set_exception(error)

    def stop(self) -> None:
        """Write no more checkpoints, and publish nothing more of what is committed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stop_checkpoints()

    def close(self) -> None:
        """Write no more checkpoints and notify no more subscribers. Pending commits are still completed."""
        self._stop_checkpoints()
        self.publisher.drop_subscribers()

    def _stop_checkpoints(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.stop()

    def _publish(self, delta: Delta, snapshot: Snapshot, size: int) -> None:
        image = snapshot.image
        self._current = snapshot = snapshot._replace(voters=self._voter_registry.at(image.offset + 1))
        self.publisher.publish(delta, image)
        if self._checkpointer is None:
            self._checkpointer = Checkpointer(
                clock=self._clock,
                log=self._log,
                newest=self._newest,
                bytes_between=self._settings.integer("metadata.log.max.record.bytes.between.snapshots"),
                interval_ms=self._settings.integer("metadata.log.max.snapshot.interval.ms"),
                on_dropped=self._on_dropped,
            )
            self._newest = None
        self._checkpointer.note(snapshot, size=size)
