"""The logs that a start leaves unopened: they are opened on first use and in the background.

A log that a killed process leaves with much to scan is recovered in slices, so that the others are served meanwhile;
until it is open, its partition is not found. Calls storage/store.py through replicas.py, which decides by
hosted_topic.py which logs may be late.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.config.settings import TopicSettings
from penstock.metadata.image import PartitionImage
from penstock.model.ids import NodeId, TopicName
from penstock.model.job import Job
from penstock.ports.clock import Clock
from penstock.replication.hosted_topic import HostedTopic, may_open_late
from penstock.storage.log import Log
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

RECOVERING_MAX: Final = 4
"""How many logs are recovered in slices at a time; each takes some megabytes of memory."""

LatePartition = tuple[HostedTopic, int]


class LateLogs:
    """The unopened logs of one node, in the order in which they are opened unless they are used before."""

    def __init__(
        self,
        node_id: NodeId,
        store: LogStore,
        clock: Clock,
        opening: Callable[[HostedTopic, int], Job[Log] | None],
        opened: Callable[[HostedTopic, int, Callable[[], Log]], None],
        progressed: Callable[[], None],
        settings_of: Callable[[TopicName], TopicSettings],
    ) -> None:
        """`opening` returns the job that opens a log, or None if the log is no longer wanted.

        `opened` gets a function that returns the log or raises the error of the attempt, and `progressed` is called
        after a recovery in slices.
        """
        self._node_id = node_id
        self._store = store
        self._clock = clock
        self.is_starting = True
        """Whether the node is starting: only then are logs left for later."""
        self._opening = opening
        self._opened = opened
        self._progressed = progressed
        self._settings_of = settings_of
        self._queue: deque[LatePartition] = deque()
        self._recovering: set[LatePartition] = set()
        self._waiting: dict[LatePartition, None] = {}
        """Logs with much to scan that wait for the end of a recovery."""

    def __len__(self) -> int:
        return len(self._queue) + len(self._recovering) + len(self._waiting)

    @property
    def has_next(self) -> bool:
        """Return whether the next log can be opened now."""
        return not self.is_starting and bool(self._queue)

    def is_opening(self, hosted: HostedTopic | None, index: int) -> bool:
        """Return whether a log is being recovered, or waits for that."""
        return hosted is not None and index in hosted.late and self._store.failure is None

    def takes(self, hosted: HostedTopic, index: int, state: PartitionImage) -> bool:
        """Leave a log for later if it may be opened late, and return whether it is left."""
        if index in hosted.late:
            return True
        # Without the table of partitions, only the first start can tell that a folder is missing: it opens all logs.
        if not self.is_starting or not self._store.has_table:
            return False
        if (hosted, index) in self._recovering:
            # The replica has left and returned. The recovery of its old log ends only at its next step.
            return False
        if not may_open_late(hosted.name, state, self._node_id):
            return False
        hosted.add_late(index, self.open)
        self._queue.append((hosted, index))
        return True

    def open(self, hosted: HostedTopic, index: int) -> None:
        """Open a log, or begin to recover it if that takes long."""
        late = hosted, index
        if late not in self._recovering and late not in self._waiting:
            self._open(late)

    def _open(self, late: LatePartition) -> None:
        hosted, index = late
        if index not in hosted.late or self._store.failure is not None:
            return
        job = self._opening(hosted, index)
        if job is None:
            hosted.take_late(index)
            return
        try:
            next(job)
        except StopIteration as end:
            self._end(late, end.value, None)
        except Exception as error:
            self._end(late, None, error)
        else:
            if len(self._recovering) >= RECOVERING_MAX:
                # Short ones are still opened.
                job.close()
                self._waiting[late] = None
                return
            logger.info("recovering %s-%d while other partitions are served", hosted.name, index)
            self._recovering.add(late)
            self._store.directory.run(self._while_late(late, job), partial(self._recovered, late))

    def open_some(self, *, within_s: float, may_open: Callable[[], bool]) -> None:
        """Open logs for some time, as long as `may_open` returns True."""
        ends = self._clock.monotonic() + within_s
        while self.has_next and may_open() and self._clock.monotonic() < ends:
            self.open(*self._queue.popleft())

    def leave(self) -> None:
        """Stop without opening the logs that are left: they are as the previous process left them."""
        # Afterwards neither a request nor a recovery opens any of them: the folder may be closed by then.
        left = [late for late in (*self._queue, *self._recovering, *self._waiting) if late[0].take_late(late[1])]
        if left:
            self._store.leave_unopened()
        self.is_starting = False
        for each in (self._queue, self._recovering, self._waiting):
            each.clear()

    def _while_late(self, late: LatePartition, job: Job[Log]) -> Job[Log | None]:
        """Continue a job until the partition leaves this node, or the folder is offline."""
        hosted, index = late
        while True:
            yield None
            if index not in hosted.late or self._store.failure is not None:
                job.close()
                return None
            try:
                next(job)
            except StopIteration as end:
                opened: Log = end.value
                return opened

    def _recovered(self, late: LatePartition, opened: Log | None, error: BaseException | None) -> None:
        self._recovering.discard(late)
        if opened is not None:
            # They may have changed since the recovery began.
            opened.apply_settings(self._settings_of(late[0].name))
        if opened is not None or error is not None:
            self._end(late, opened, error)
        while self._waiting and len(self._recovering) < RECOVERING_MAX:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._open(following)
        self._progressed()

    def _end(self, late: LatePartition, opened: Log | None, error: BaseException | None) -> None:
        hosted, index = late
        if hosted.take_late(index):
            self._opened(hosted, index, partial(_outcome, opened, error))


def _outcome(opened: Log | None, error: BaseException | None) -> Log:
    if error is not None:
        raise error
    assert opened is not None, "an attempt ends with a log or an error"
    return opened
