"""The worker: polls, passes records to the engine, commits finished offsets, follows rebalances.

Everything that touches the consumer runs on the thread that called `run`. Calls engine.py for the work and
letter_writer.py for dead letters. A dead letter that cannot be written, or a failure without a dead-letter topic,
ends `run` with the error.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.worker import dead_letter
from penstock.worker.engine import Counts, Engine, Handler
from penstock.worker.lanes import PartitionId, Task
from penstock.worker.letter_writer import LetterWriter
from penstock.worker.options import DeadLetters, Delivery, Order, Retry
from penstock.worker.queue import QueueLoop
from penstock.worker.record import Record, from_message

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

log = logging.getLogger("penstock.worker")

POLL_S = 0.1
BATCH_COUNT_MAX = 500
TO_OWN_TOPIC = DeadLetters()
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WorkerFailed(Exception):
    """A record could not be handled and there is no dead-letter topic; its offset is not committed."""


class Worker:
    """A consumer that calls a function for every record of some topics.

        def handle(record: Record) -> None:
            charge(json.loads(record.value))

        Worker(handle, topics=["orders"], group="billing", bootstrap="localhost:9092").run()

    A record is done when `handle` returns (or its coroutine ends). An exception is retried according to `retry`; then
    the record goes to the dead-letter topic and is done too. Only the offsets of finished records are committed.
    `dead_letters=None` stops the worker at the first record that cannot be handled. A topic name that starts with ^ is
    a pattern; dead-letter topics that it matches are skipped.

    concurrency: the number of records handled concurrently, each on a thread. `order` says which are handled in order.
    in_flight_max: the number of records in memory; above it the partitions are paused, while the worker stays in its
    group. stop_timeout_s: how long running handlers may take to finish at a stop or when their partition is revoked.
    client: librdkafka settings for all connections (such as security). consumer: settings for the consumer only.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        topics: Sequence[str],
        group: str,
        bootstrap: str,
        delivery: Delivery | str = Delivery.AT_LEAST_ONCE,
        order: Order | str = Order.PARTITION,
        concurrency: int = 1,
        in_flight_max: int = 1000,
        retry: Retry | None = None,
        dead_letters: DeadLetters | None = TO_OWN_TOPIC,
        commit_every_s: float = 1.0,
        stop_timeout_s: float = 30.0,
        client: Mapping[str, Any] | None = None,
        consumer: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(topics, str) or not topics:
            raise ValueError("topics must be a list of names, for example ['orders']")
        if not 1 <= concurrency <= in_flight_max:
            raise ValueError("concurrency must be between 1 and in_flight_max")
        if dead_letters is not None and any(dead_letters.topic_for(name) == name for name in topics):
            raise ValueError(f"dead letters cannot go to a topic that the worker reads: {dead_letters.topic}")
        self._topics = list(topics)
        self._group = group
        self._delivery = Delivery(delivery)
        self._handler = handler
        self._retry = retry or Retry()
        self._concurrency = concurrency
        self._in_flight_max = in_flight_max
        self._dead_letters = dead_letters
        self._commit_every_s = commit_every_s
        self._stop_timeout_s = stop_timeout_s
        self._client = {"bootstrap.servers": bootstrap, **(client or {})}
        self._consumer_settings = dict(consumer or {})
        once = self._delivery is Delivery.AT_MOST_ONCE
        self._passed_over: set[str] = set()
        has_patterns = any(name.startswith("^") for name in topics)
        self._engine = Engine(
            self._skip_dead_letters(handler, dead_letters) if has_patterns and dead_letters is not None else handler,
            give_up=self._give_up,
            # A second attempt would be a second delivery.
            retry=Retry(attempts=1) if once else retry or Retry(),
            order=Order(order),
            concurrency=concurrency,
        )
        self._consumer: Consumer
        self._letters: LetterWriter | None = None
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._has_run = False
        self._joined = False
        self._owned: set[PartitionId] = set()
        self._at_end: set[PartitionId] = set()
        self._paused: set[PartitionId] = set()
        self._batch: list[Record] = []

    @property
    def counts(self) -> Counts:
        """Return the counters."""
        return self._engine.counts

    def stop(self) -> None:
        """Ask `run` to stop, from any thread: running handlers finish, and finished offsets are committed.

        A second call stops waiting for handlers.
        """
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def run(self, *, signals: bool = True, idle_stop_s: float | None = None) -> Counts:
        """Work until `stop`, SIGTERM or SIGINT; return the counters.

        signals: handle these signals, which is possible only on the main thread and ignored elsewhere. idle_stop_s:
        also stop after this long without work.
        """
        from confluent_kafka import Consumer

        if self._has_run:
            raise RuntimeError("a worker runs only once: create another one")
        self._has_run = True
        if self._delivery is Delivery.QUEUE:
            return self._run_queue(signals=signals, idle_stop_s=idle_stop_s)
        self._consumer = Consumer(self._settings())
        if self._dead_letters is not None:
            self._letters = LetterWriter(self._client, self._dead_letters)
        with self._signals(signals):
            self._engine.start()
            log.info("starting a worker of group %s on %s, %s", self._group, ", ".join(self._topics), self._delivery)
            try:
                self._consumer.subscribe(
                    self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
                )
                self._poll_until_stopped(idle_stop_s)
            finally:
                self._shut_down()
        if self._engine.failure is not None:
            raise self._engine.failure
        return self.counts

    def _run_queue(self, *, signals: bool, idle_stop_s: float | None) -> Counts:
        loop = QueueLoop(
            self._handler,
            topics=self._topics,
            settings={**self._client, **self._consumer_settings, "group.id": self._group},
            concurrency=self._concurrency,
            retry=self._retry,
            counts=self.counts,
            is_stopping=self._stopping.is_set,
        )
        log.info("starting a worker of share group %s on %s", self._group, ", ".join(self._topics))
        with self._signals(signals):
            loop.run(idle_stop_s)
        log.info("stopped the worker of group %s: %s", self._group, self.counts)
        return self.counts

    def _settings(self) -> dict[str, Any]:
        return {
            "auto.offset.reset": "earliest",
            **self._client,
            **self._consumer_settings,
            "group.id": self._group,
            # Only the worker knows which records are done.
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "on_commit": self._committed,
            # Reports when a partition is read to its end: see idle_stop_s.
            "enable.partition.eof": True,
        }

    def _poll_until_stopped(self, idle_stop_s: float | None) -> None:
        commit_due = time.monotonic() + self._commit_every_s
        busy_at = time.monotonic()
        while not self._stopping.is_set() and self._engine.failure is None:
            self._limit_in_flight()
            if self._poll() or self._engine.in_flight or not self._has_read_all():
                busy_at = time.monotonic()
            elif idle_stop_s is not None and time.monotonic() - busy_at >= idle_stop_s:
                log.info("stopping after %g s without work", idle_stop_s)
                return
            if self._delivery is Delivery.AT_LEAST_ONCE and time.monotonic() >= commit_due:
                self._commit(self._engine.positions(), wait=False)
                commit_due = time.monotonic() + self._commit_every_s

    def _has_read_all(self) -> bool:
        """Return whether the worker is a member of its group and has reached the end of each assigned partition.

        Without this check a slow broker or a long rebalance would look like an empty topic.
        """
        return self._joined and self._owned <= self._at_end

    def _poll(self) -> int:
        """Poll once with a timeout, then for records that are available; return how many arrived."""
        count = 0
        room = min(BATCH_COUNT_MAX, self._in_flight_max - self._engine.in_flight)
        timeout_s = 0.0 if self._paused else POLL_S
        # Poll even if there is no room: it keeps the worker in its group.
        while count < max(1, room):
            # One by one: a rebalance callback runs inside poll and must know every record that was received.
            message = self._consumer.poll(timeout_s)
            if message is None:
                break
            timeout_s = 0.0
            error = message.error()
            if error is not None:
                self._note_error(message, error)
                continue
            record = from_message(message)
            self._at_end.discard((record.topic, record.partition))
            count += 1
            if self._delivery is Delivery.AT_MOST_ONCE:
                self._batch.append(record)
            else:
                self._engine.submit(record)
        if self._batch:
            self._submit_committed()
        return count

    def _submit_committed(self) -> None:
        """Commit a batch and then submit it; if the commit fails, read it again later."""
        batch, self._batch = self._batch, []
        ends = {(record.topic, record.partition): record.offset + 1 for record in batch}
        if self._commit(ends, wait=True):
            for record in batch:
                self._engine.submit(record)
            return
        firsts: dict[PartitionId, int] = {}
        for record in batch:
            firsts.setdefault((record.topic, record.partition), record.offset)
        for partition_id, offset in firsts.items():
            if partition_id in self._owned:
                self._consumer.seek(_partition(partition_id, offset))
                self._at_end.discard(partition_id)

    def _limit_in_flight(self) -> None:
        """Wait until half of the records in flight are done if they are too many; pause if that takes long."""
        if self._engine.in_flight < self._in_flight_max and not self._paused:
            return
        if self._engine.wait_for_room(self._in_flight_max // 2, timeout_s=POLL_S):
            self._consumer.resume([_partition(partition_id) for partition_id in self._paused & self._owned])
            self._paused.clear()
        elif started := self._started_partitions(self._owned - self._paused):
            # Pausing discards what the client has prefetched, so wait briefly first.
            self._consumer.pause([_partition(partition_id) for partition_id in started])
            self._paused |= started
            log.debug("paused: %d records in flight", self._engine.in_flight)

    def _started_partitions(self, ids: set[PartitionId]) -> set[PartitionId]:
        """Return the partitions of which a record was received.

        If a partition is paused and resumed while librdkafka 2.16 asks for its first offset, the client asks twice,
        and once more half a second after the answers. It then starts at the first offset again.
        """
        positions = self._consumer.position([_partition(partition_id) for partition_id in ids])
        return _partition_ids([partition for partition in positions if partition.offset >= 0])

    def _skip_dead_letters(self, handler: Handler, dead_letters: DeadLetters) -> Handler:
        """Skip records that a pattern finds in dead-letter topics.

        Otherwise a record that always fails would be written to one such topic after another forever.
        """

        def handle(record: Record) -> Any:
            if not dead_letters.may_hold(record.topic) or record.topic in self._topics:
                return handler(record)
            if record.topic not in self._passed_over:
                self._passed_over.add(record.topic)
                log.warning("skipping %s: it matches a pattern but is a dead-letter topic", record.topic)
            return None

        return handle

    def _give_up(self, task: Task, error: Exception, now_ms: int) -> None:
        record = task.record
        if self._letters is None:
            words = dead_letter.words_of(error)
            raise WorkerFailed(f"{record.place} failed after {task.attempts} attempts: {words}") from error
        death = dead_letter.describe(
            record, error, attempts=task.attempts, first_failure_ms=task.first_failure_ms, last_failure_ms=now_ms,
            group=self._group,
        )  # fmt: skip
        where = self._letters.write(record, death)
        log.error(
            "%s: failed after %d attempts (%s: %s), dead-lettered to %s",
            record.place, task.attempts, type(error).__name__, death.error_message, where,
        )  # fmt: skip

    def _commit(self, offsets: Mapping[PartitionId, int], *, wait: bool) -> bool:
        from confluent_kafka import KafkaException

        if not offsets:
            return True
        partitions = [_partition(partition_id, offset) for partition_id, offset in offsets.items()]
        try:
            if not wait:
                self._consumer.commit(offsets=partitions, asynchronous=True)
                return True
            committed = self._consumer.commit(offsets=partitions, asynchronous=False) or []
        except KafkaException as error:
            log.warning("commit failed, records may be delivered again: %s", error.args[0].str())
            self._engine.not_committed(offsets)
            return False
        refused = [partition for partition in committed if partition.error is not None]
        for partition in refused:
            log.warning("commit of %s-%d failed: %s", partition.topic, partition.partition, partition.error)
        self._engine.not_committed((partition.topic, partition.partition) for partition in refused)
        return not refused

    def _committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Handle the result of an asynchronous commit."""
        refused = [partition for partition in partitions if error is not None or partition.error is not None]
        if refused:
            log.warning("commit failed and will be repeated: %s", error or refused[0].error)
            self._engine.not_committed((partition.topic, partition.partition) for partition in refused)

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        ids = _partition_ids(partitions)
        self._joined = True
        self._owned |= ids
        self._at_end -= ids
        log.info("assigned: %s", _shown(partitions))

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Let running handlers finish, commit, and give up the partitions."""
        ids = _partition_ids(partitions)
        log.info("revoked: %s", _shown(partitions))
        self._settle(ids)
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._commit(self._engine.positions(ids), wait=True)
        self._disown(ids)
        # An eager rebalance revokes everything and then assigns. The consumer protocol may assign nothing afterwards.
        if self._consumer_settings.get("group.protocol") != "consumer" and not self._owned:
            self._joined = False

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions that another worker already owns, without a commit, which would be rejected."""
        ids = _partition_ids(partitions)
        log.warning("lost: %s", _shown(partitions))
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._engine.settle(ids, timeout_s=0, finish_all=False, hurry=self._hurry.is_set)
        self._disown(ids)
        self._joined = False

    def _disown(self, ids: set[PartitionId]) -> None:
        self._engine.forget(ids)
        self._owned -= ids
        self._at_end -= ids
        self._paused -= ids
        self._batch = [record for record in self._batch if (record.topic, record.partition) not in ids]

    def _settle(self, ids: set[PartitionId] | None) -> None:
        # At most once: records that were committed but not handled would be lost if they were dropped now.
        finish_all = self._delivery is Delivery.AT_MOST_ONCE
        if not self._engine.settle(
            ids, timeout_s=self._stop_timeout_s, finish_all=finish_all, hurry=self._hurry.is_set
        ):
            log.warning("handlers are still running after %g s; their records are not committed", self._stop_timeout_s)

    def _shut_down(self) -> None:
        self._settle(None)
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._commit(self._engine.positions(self._owned), wait=True)
        # close() calls the revoke callback again; do not wait there a second time.
        self._hurry.set()
        self._consumer.close()
        self._engine.close()
        if self._letters is not None:
            self._letters.close()
        log.info("stopped the worker of group %s: %s", self._group, self.counts)

    def _note_error(self, message: Message, error: KafkaError) -> None:
        from confluent_kafka import KafkaError, KafkaException

        if error.code() == KafkaError._PARTITION_EOF:
            topic, partition = message.topic(), message.partition()
            assert topic is not None and partition is not None, "an end-of-partition event names the partition"
            self._at_end.add((topic, partition))
            return
        if error.fatal():
            raise KafkaException(error)
        log.warning("consumer error: %s", error.str())

    @contextlib.contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        if not wanted or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda number, frame: self.stop()) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _partition(partition_id: PartitionId, offset: int | None = None) -> TopicPartition:
    from confluent_kafka import TopicPartition

    return TopicPartition(*partition_id) if offset is None else TopicPartition(*partition_id, offset)


def _partition_ids(partitions: Sequence[TopicPartition]) -> set[PartitionId]:
    return {(partition.topic, partition.partition) for partition in partitions}


def _shown(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{index}" for topic, index in sorted(_partition_ids(partitions))) or "nothing"
