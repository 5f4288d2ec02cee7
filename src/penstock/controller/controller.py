"""The driver of decisions about the cluster: one at a time, each on the image after the previous one.

Calls the deciding functions of this package, then metadata/quorum.py. Decides nothing itself, and runs only on the
active controller. A decision over thousands of partitions is a job (model/job.py): other work runs between its slices,
but no other decision. A cancelled caller does not stop a decision whose records are being committed.
Refuses: NotController.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import is_unclean
from penstock.metadata.records import NO_CHANGE, PartitionChangeRecord
from penstock.model.errors import NotController
from penstock.model.ids import NO_NODE

if TYPE_CHECKING:
    from penstock.metadata.image import Image
    from penstock.metadata.records import MetadataRecord
    from penstock.model.ids import LeaderEpoch
    from penstock.model.job import Job

SHOWN_MAX: Final = 5
RECORDS_PER_COMMIT: Final = 300
"""Of a decision that is not atomic: every node applies a part without a break, at about 12 microseconds a record."""

log = logging.getLogger(__name__)
T = TypeVar("T")
Decide = Callable[["Image"], "ControllerDecision[T] | Job[ControllerDecision[T]]"]
"""A decision about an image, as a whole or in slices."""


class Quorum(Protocol):
    """The part of metadata/quorum.py that the controller uses."""

    @property
    def image(self) -> "Image": ...

    @property
    def is_active(self) -> bool: ...

    @property
    def epoch(self) -> "LeaderEpoch": ...

    async def commit(self, *parts: "Sequence[MetadataRecord]") -> None:
        """Return when the records are durable, applied and published. A crash may leave only the first parts."""
        ...


class Controller:
    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()

    @property
    def image(self) -> "Image":
        return self._quorum.image

    @property
    def is_active(self) -> bool:
        return self._quorum.is_active

    async def run(self, decide: "Decide[T]") -> T:
        """Decide on the newest image, commit the records, then return the reply.

        Raises what `decide` raises (a Refusal) and what the commit raises.
        """
        task = asyncio.ensure_future(self._run_in_turn(decide))
        self._running.add(task)
        task.add_done_callback(self._task_done)
        # Shielded: if a cancelled caller released the lock between append and publish,
        # the next decision would be based on an image without the records of this one.
        return await asyncio.shield(task)

    def _task_done(self, task: "asyncio.Task[object]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have been cancelled

    async def _run_in_turn(self, decide: "Decide[T]") -> T:
        async with self._turn:
            if not self._quorum.is_active:
                raise NotController
            image = self._quorum.image
            decision = decide(image)
            if not isinstance(decision, ControllerDecision):
                decision = await self._finish(decision)
            if decision.records:
                await self._quorum.commit(*decision.parts(RECORDS_PER_COMMIT))
                self._warn_of_unclean(image, decision.records)
            return decision.reply

    async def _finish(self, job: "Job[ControllerDecision[T]]") -> "ControllerDecision[T]":
        """Run a decision in slices. It is void if another controller was active meanwhile."""
        epoch = self._quorum.epoch
        while True:
            try:
                next(job)
            except StopIteration as end:
                decision: ControllerDecision[T] = end.value
                return decision
            await asyncio.sleep(0)
            if not self._quorum.is_active or self._quorum.epoch != epoch:
                job.close()
                raise NotController

    def _warn_of_unclean(self, image: "Image", records: "Sequence[MetadataRecord]") -> None:
        unclean = []
        for record in records:
            topic = image.topics_by_id.get(record.topic_id) if isinstance(record, PartitionChangeRecord) else None
            if topic is None or not isinstance(record, PartitionChangeRecord):
                continue
            before = topic.partitions[record.partition_id]
            if record.leader in (NO_CHANGE, NO_NODE) or record.leader == before.leader:
                continue
            if is_unclean(before, record):
                unclean.append(f"{topic.name}-{record.partition_id} (node {record.leader})")
        if unclean:
            more = f" and {len(unclean) - SHOWN_MAX} more" if len(unclean) > SHOWN_MAX else ""
            log.warning(
                "elected leaders after an unclean shutdown or uncleanly, records may be lost: %s%s",
                ", ".join(unclean[:SHOWN_MAX]),
                more,
            )
