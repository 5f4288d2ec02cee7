"""The loop of a worker in a share group: each record is acknowledged on its own.

A handler that returns accepts its record; `Reject` and the errors in `Retry.never` reject it; any other error
releases it, and the broker delivers it again, to this or another worker, after the group's delay and up to its
delivery limit. Dead letters are the broker's, too. A poll returns only when every record of the previous one is
acknowledged, so a batch should take less time than the lock; the worker warns if one did not. A worker that stops
releases the records whose handlers have not begun. Calls to the consumer stay on one thread.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock.worker.engine import Counts, Handler
from penstock.worker.options import Reject, Retry
from penstock.worker.record import Record, from_message

if TYPE_CHECKING:
    from confluent_kafka import Message, ShareConsumer

log = logging.getLogger("penstock.worker")

POLL_S = 0.5
COMMIT_S = 30.0
LOCK_S = 30.0
"""The default lock duration of a share group; the client does not learn the actual one."""
ACCEPTED, RELEASED, REJECTED = "accepted", "released", "rejected"


class QueueLoop:
    def __init__(
        self,
        handler: Handler,
        *,
        topics: list[str],
        settings: Mapping[str, Any],
        concurrency: int,
        retry: Retry,
        counts: Counts,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._handler = handler
        self._topics = topics
        self._settings = {**settings, "share.acknowledgement.mode": "explicit"}
        self._concurrency = concurrency
        self._retry = retry
        self._counts = counts
        self._is_stopping = is_stopping

    def run(self, idle_stop_s: float | None) -> None:
        """Work until the worker is stopped, or has had no records for some time."""
        from confluent_kafka import ShareConsumer

        consumer = ShareConsumer(self._settings)
        consumer.subscribe(self._topics)
        busy_at = time.monotonic()
        try:
            with ThreadPoolExecutor(self._concurrency, "penstock-worker") as threads:
                while not self._is_stopping():
                    if self._work(consumer, threads):
                        busy_at = time.monotonic()
                    elif idle_stop_s is not None and time.monotonic() - busy_at >= idle_stop_s:
                        log.info("stopping after %g s without work", idle_stop_s)
                        return
        finally:
            consumer.close()

    def _work(self, consumer: ShareConsumer, threads: ThreadPoolExecutor) -> int:
        """Handle the records of one poll and commit their outcomes; return how many there were."""
        messages = []
        for message in consumer.poll(POLL_S):
            error = message.error()
            if error is None:
                messages.append(message)
            else:
                log.warning("consumer error: %s", error.str())
        if not messages:
            return 0
        began = time.monotonic()
        outcomes = threads.map(self._handle, messages)
        for message, outcome in zip(messages, outcomes, strict=True):
            consumer.acknowledge(message, _type_of(outcome))
            self._count(outcome)
        took_s = time.monotonic() - began
        if took_s > LOCK_S:
            log.warning("a batch took %.0f s, longer than the default lock: records may be delivered again", took_s)
        for partition, failure in consumer.commit_sync(COMMIT_S).items():
            if failure is not None:
                log.warning("%s-%s: records may be delivered again: %s", partition.topic, partition.partition, failure)
        return len(messages)

    def _handle(self, message: Message) -> str:
        """Call the handler on a thread of the pool; release the record if the worker is stopping."""
        if self._is_stopping():
            return RELEASED
        record = from_message(message)
        try:
            result = self._handler(record)
            if inspect.isawaitable(result):
                asyncio.run(_awaited(result))
        except Exception as error:
            return self._failed(record, error)
        return ACCEPTED

    def _failed(self, record: Record, error: Exception) -> str:
        if isinstance(error, (Reject, *self._retry.never)):
            log.error("%s: rejected (%s: %s)", record.place, type(error).__name__, error)
            return REJECTED
        log.warning("%s: released (%s: %s)", record.place, type(error).__name__, error)
        return RELEASED

    def _count(self, outcome: str) -> None:
        counts = self._counts
        counts.taken += 1
        counts.succeeded += outcome == ACCEPTED
        counts.retried += outcome == RELEASED
        counts.dead_lettered += outcome == REJECTED


async def _awaited(result: Any) -> Any:
    return await result


def _type_of(outcome: str) -> Any:
    from confluent_kafka import AcknowledgeType

    types = {
        ACCEPTED: AcknowledgeType.ACCEPT,
        RELEASED: AcknowledgeType.RELEASE,
        REJECTED: AcknowledgeType.REJECT,
    }
    return types[outcome]
