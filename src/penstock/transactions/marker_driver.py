"""The driver of markers: writes those of decided transactions to every partition, then completes them.

One job for each decided transaction writes to its partitions concurrently, and retries failures
with growing pauses. Decides nothing: the `Markers` contain the outcome. `write_marker` writes to a
partition of this node or sends WriteTxnMarkers to the partition's leader. A job gives up only
if the shard is abandoned, another coordinator has taken over, or the node stops.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from penstock.model.errors import InvalidProducerEpoch, Refusal
from penstock.model.ids import TopicPartition
from penstock.ports.clock import Clock
from penstock.transactions.commands import Markers, MarkersWritten
from penstock.transactions.errors import TransactionCoordinatorFenced

log = logging.getLogger(__name__)

PAUSE_MS_MIN = 20
PAUSE_MS_MAX = 1_000


class WriteMarker(Protocol):
    def __call__(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> Awaitable[object]:
        """Write a marker; done when it is durable and, for a group's partition, its offsets are committed.

        Raises a Refusal. The append happens immediately or not at all: a cancelled job writes no marker later.
        """
        ...


Complete = Callable[[int, MarkersWritten], Awaitable[object]]
"""Submits to the shard of a partition of `__transaction_state`; done when the reply arrives."""


class MarkerDriver:
    def __init__(
        self,
        *,
        write_marker: WriteMarker,
        complete: Complete,
        is_deleted: Callable[[TopicPartition], bool],
        clock: Clock,
    ) -> None:
        self._write_marker = write_marker
        self._complete = complete
        self._is_deleted = is_deleted
        """Whether the partition is no longer in the metadata, so that its records can never be read."""
        self._clock = clock
        self._jobs: dict[int, set[asyncio.Task[None]]] = {}
        self._by_id: dict[str, asyncio.Task[None]] = {}
        """The current job of each transactional id."""

    def __len__(self) -> int:
        """Return the number of transactions whose markers are being written."""
        return sum(len(jobs) for jobs in self._jobs.values())

    def start(self, index: int, coordinator_epoch: int, markers: Markers) -> None:
        """Start to write the markers; `coordinator_epoch` is the leader epoch of the shard's partition."""
        job = asyncio.ensure_future(self._run(index, coordinator_epoch, markers))
        jobs = self._jobs.setdefault(index, set())
        jobs.add(job)
        self._by_id[markers.transactional_id] = job
        job.add_done_callback(lambda done: self._ended(index, jobs, done, markers))

    async def ended(self, transactional_id: str, timeout_s: float) -> None:
        """Wait until the id's markers are written, if they are being written, for a limited time."""
        job = self._by_id.get(transactional_id)
        if job is not None:
            over = asyncio.Event()
            job.add_done_callback(lambda _: over.set())
            timer = self._clock.call_later(timeout_s, over.set)
            await over.wait()
            timer.cancel()

    def abandon(self, index: int) -> None:
        """Stop the jobs of a shard. The next load of the shard starts them again from the log."""
        for job in self._jobs.pop(index, ()):
            job.cancel()

    def close(self) -> None:
        for index in list(self._jobs):
            self.abandon(index)

    def _ended(self, index: int, jobs: set[asyncio.Task[None]], job: asyncio.Task[None], markers: Markers) -> None:
        jobs.discard(job)
        if self._by_id.get(markers.transactional_id) is job:
            del self._by_id[markers.transactional_id]
        if not jobs and self._jobs.get(index) is jobs:
            del self._jobs[index]
        if not job.cancelled() and (error := job.exception()) is not None:
            log.error(
                "cannot finish the markers of transactional id %s, its transaction stays open until the next load",
                markers.transactional_id,
                exc_info=error,
            )

    # -- one transaction -------------------------------------------------------------------

    async def _run(self, index: int, coordinator_epoch: int, markers: Markers) -> None:
        remaining: Iterable[TopicPartition] = markers.partitions
        pause_ms = PAUSE_MS_MIN
        while remaining := [partition for partition in remaining if not self._is_deleted(partition)]:
            try:
                remaining = await self._round(remaining, coordinator_epoch, markers)
            except TransactionCoordinatorFenced:
                log.info("stopped writing the markers of shard %d: another node is the coordinator now", index)
                return
            if remaining:
                await self._pause(pause_ms)
                pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        await self._finish(index, markers)

    async def _round(
        self, partitions: list[TopicPartition], coordinator_epoch: int, markers: Markers
    ) -> list[TopicPartition]:
        """Try all partitions once; return those that still lack a marker."""
        if len(partitions) == 1:
            is_written = await self._write(partitions[0], coordinator_epoch, markers)
            return [] if is_written else partitions
        results = await asyncio.gather(
            *(self._write(partition, coordinator_epoch, markers) for partition in partitions), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [partition for partition, is_written in zip(partitions, results, strict=True) if not is_written]

    async def _write(self, partition: TopicPartition, coordinator_epoch: int, markers: Markers) -> bool:
        try:
            await self._write_marker(
                partition.topic,
                partition.partition,
                markers.producer_id,
                markers.epoch,
                coordinator_epoch,
                markers.is_commit,
                markers.transaction_version,
            )
        except InvalidProducerEpoch as refusal:
            # The producer has a newer epoch in this partition, so the transaction has already ended there.
            log.warning("skipped the marker of %s for %s: %s", markers.transactional_id, partition, refusal)
        except TransactionCoordinatorFenced:
            raise
        except Refusal as refusal:
            log.info("retrying the marker of %s for %s: %s", markers.transactional_id, partition, refusal)
            return False
        except Exception:
            # Retried after any failure, because the transaction is decided and must not stay open in this partition.
            log.exception("retrying the marker of %s for %s after a failure", markers.transactional_id, partition)
            return False
        return True

    async def _finish(self, index: int, markers: Markers) -> None:
        pause_ms = PAUSE_MS_MIN
        while True:
            try:
                await self._complete(index, MarkersWritten(markers))
                return
            except Refusal as refusal:
                # For example a full disk. If the shard is unloaded or reloaded, this job is abandoned.
                log.info("retrying the completion of %s: %s", markers.transactional_id, refusal)
            except Exception:
                log.exception("retrying the completion of %s after a failure", markers.transactional_id)
            await self._pause(pause_ms)
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)

    async def _pause(self, pause_ms: int) -> None:
        over = asyncio.Event()
        timer = self._clock.call_later(pause_ms / 1000, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
