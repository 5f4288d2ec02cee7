"""The worker: polls, hands records to the engine, commits what is done, follows rebalances.

Everything that touches the consumer runs on the thread that called `run`. Goes to engine.py for
the work and letter_writer.py for what is given up. Refuses to guess: a dead letter that cannot
be written, or a failure without a dead-letter topic, ends `run` with the error.
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
from penstock.worker.lanes import Place, Task
from penstock.worker.letter_writer import LetterWriter
from penstock.worker.options import DeadLetters, Delivery, Order, Retry
from penstock.worker.record import Record, from_message

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

log = logging.getLogger("penstock.worker")

POLL_S = 0.1
BATCH_COUNT_MAX = 500
TO_OWN_TOPIC = DeadLetters()
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WorkerFailed(Exception):
    """A record could not be handled and there is nowhere to put it; its offset is not committed."""


class Worker:
    """Handles every record of some topics with a function.

        def handle(record: Record) -> None:
            charge(json.loads(record.value))

        Worker(handle, topics=["orders"], group="billing", bootstrap="localhost:9092").run()

    A record is done when `handle` returns (or its coroutine ends). An exception is retried as
    `retry` says; then the record goes to the dead-letter topic and is done too. Only what is done
    is committed. `dead_letters=None` stops the worker at the first record that stays unhandled.
    A name that begins with ^ is a pattern; dead-letter topics that it matches are passed over.

    concurrency: how many records are handled at a time, each on a thread. `order` says which wait
    for each other. in_flight_max: how many records are held in memory; beyond it the partitions
    are paused, while the worker stays in its group. stop_timeout_s: how long running handlers may
    take to end at a stop or when their partition moves to another worker.
    client: librdkafka settings for all connections (security, for example). consumer: those for
    the consumer alone.
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
            raise ValueError("topics is a list of names, for example ['orders']")
        if not 1 <= concurrency <= in_flight_max:
            raise ValueError("concurrency lies between 1 and in_flight_max")
        if dead_letters is not None and any(dead_letters.topic_for(name) == name for name in topics):
            raise ValueError(f"dead letters cannot go to a topic that the worker reads: {dead_letters.topic}")
        self._topics = list(topics)
        self._group = group
        self._delivery = Delivery(delivery)
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
            self._but_letters(handler, dead_letters) if has_patterns and dead_letters is not None else handler,
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
        self._owned: set[Place] = set()
        self._at_end: set[Place] = set()
        self._paused: set[Place] = set()
        self._batch: list[Record] = []

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        return self._engine.counts

    def stop(self) -> None:
        """Ask `run` to end, from any thread: running handlers finish, what is done is committed.

        A second call does not wait for handlers any longer.
        """
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def run(self, *, signals: bool = True, idle_stop_s: float | None = None) -> Counts:
        """Work until `stop`, SIGTERM or SIGINT; return what was done.

        signals: take those two signals, which only works on the main thread; elsewhere it is passed
        over. idle_stop_s: also end once nothing was there to do for so long.
        """
        from confluent_kafka import Consumer

        if self._has_run:
            raise RuntimeError("a worker runs once: make another to go on")
        self._has_run = True
        self._consumer = Consumer(self._settings())
        if self._dead_letters is not None:
            self._letters = LetterWriter(self._client, self._dead_letters)
        with self._signals(signals):
            self._engine.start()
            log.info("worker of group %s starts on %s, %s", self._group, ", ".join(self._topics), self._delivery)
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

    def _settings(self) -> dict[str, Any]:
        return {
            "auto.offset.reset": "earliest",
            **self._client,
            **self._consumer_settings,
            "group.id": self._group,
            # The worker alone knows what is done.
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "on_commit": self._committed,
            # Tells when a partition is read to its end: see idle_stop_s.
            "enable.partition.eof": True,
        }

    def _poll_until_stopped(self, idle_stop_s: float | None) -> None:
        commit_due = time.monotonic() + self._commit_every_s
        busy_at = time.monotonic()
        while not self._stopping.is_set() and self._engine.failure is None:
            self._hold_back()
            if self._take_in() or self._engine.in_flight or not self._has_read_all():
                busy_at = time.monotonic()
            elif idle_stop_s is not None and time.monotonic() - busy_at >= idle_stop_s:
                log.info("nothing to do for %g s", idle_stop_s)
                return
            if self._delivery is Delivery.AT_LEAST_ONCE and time.monotonic() >= commit_due:
                self._commit(self._engine.positions(), wait=False)
                commit_due = time.monotonic() + self._commit_every_s

    def _has_read_all(self) -> bool:
        """Return whether the worker is a member of its group and has reached the end of each assigned partition.

        Without this check a slow broker, or a rebalance that takes long, would look like an empty topic.
        """
        return self._joined and self._owned <= self._at_end

    def _take_in(self) -> int:
        """Poll once for long and then for what else is at hand; return how many records came."""
        count = 0
        room = min(BATCH_COUNT_MAX, self._in_flight_max - self._engine.in_flight)
        timeout_s = 0.0 if self._paused else POLL_S
        # Without room it polls too: that is what keeps the worker in its group.
        while count < max(1, room):
            # One by one: a rebalance runs inside poll, and no record may be in our hands then that
            # the callbacks do not know of.
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
        """Commit a batch and then hand it over; if it cannot be committed, read it again later."""
        batch, self._batch = self._batch, []
        ends = {(record.topic, record.partition): record.offset + 1 for record in batch}
        if self._commit(ends, wait=True):
            for record in batch:
                self._engine.submit(record)
            return
        firsts: dict[Place, int] = {}
        for record in batch:
            firsts.setdefault((record.topic, record.partition), record.offset)
        for place, offset in firsts.items():
            if place in self._owned:
                self._consumer.seek(_partition(place, offset))
                self._at_end.discard(place)

    def _hold_back(self) -> None:
        """While too much is in flight, wait for half of it to go, and pause what is owned if that takes long."""
        if self._engine.in_flight < self._in_flight_max and not self._paused:
            return
        if self._engine.wait_for_room(self._in_flight_max // 2, timeout_s=POLL_S):
            self._consumer.resume([_partition(place) for place in self._paused & self._owned])
            self._paused.clear()
        elif self._owned - self._paused:
            # Pausing throws away what the client has fetched ahead, so a short wait comes first.
            self._consumer.pause([_partition(place) for place in self._owned - self._paused])
            self._paused |= self._owned
            log.debug("paused: %d records in flight", self._engine.in_flight)

    def _but_letters(self, handler: Handler, dead_letters: DeadLetters) -> Handler:
        """Pass over what a pattern finds in dead-letter topics.

        A record that always fails would else be written to one such topic after another for ever.
        """

        def handle(record: Record) -> Any:
            if not dead_letters.may_hold(record.topic) or record.topic in self._topics:
                return handler(record)
            if record.topic not in self._passed_over:
                self._passed_over.add(record.topic)
                log.warning("%s matches a pattern but holds dead letters: passed over", record.topic)
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
            "%s: given up after %d attempts (%s: %s), now at %s",
            record.place, task.attempts, type(error).__name__, death.error_message, where,
        )  # fmt: skip

    def _commit(self, offsets: Mapping[Place, int], *, wait: bool) -> bool:
        from confluent_kafka import KafkaException

        if not offsets:
            return True
        partitions = [_partition(place, offset) for place, offset in offsets.items()]
        try:
            if not wait:
                self._consumer.commit(offsets=partitions, asynchronous=True)
                return True
            committed = self._consumer.commit(offsets=partitions, asynchronous=False) or []
        except KafkaException as error:
            log.warning("the commit failed, what it covered may be delivered again: %s", error.args[0].str())
            self._engine.not_committed(offsets)
            return False
        refused = [partition for partition in committed if partition.error is not None]
        for partition in refused:
            log.warning("%s-%d was not committed: %s", partition.topic, partition.partition, partition.error)
        self._engine.not_committed((partition.topic, partition.partition) for partition in refused)
        return not refused

    def _committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Hear what became of a commit that nobody waited for."""
        refused = [partition for partition in partitions if error is not None or partition.error is not None]
        if refused:
            log.warning("a commit failed and is said again: %s", error or refused[0].error)
            self._engine.not_committed((partition.topic, partition.partition) for partition in refused)

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        places = _places(partitions)
        self._joined = True
        self._owned |= places
        self._at_end -= places
        log.info("assigned: %s", _shown(partitions))

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Let running handlers end, commit what is done, and give the partitions away."""
        places = _places(partitions)
        log.info("revoked: %s", _shown(partitions))
        self._settle(places)
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._commit(self._engine.positions(places), wait=True)
        self._disown(places)
        # An eager rebalance revokes everything and then assigns. The consumer protocol may assign nothing more.
        if self._consumer_settings.get("group.protocol") != "consumer" and not self._owned:
            self._joined = False

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Another worker owns them already: a commit would be refused, so just let go."""
        places = _places(partitions)
        log.warning("lost: %s", _shown(partitions))
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._engine.settle(places, timeout_s=0, finish_all=False, hurry=self._hurry.is_set)
        self._disown(places)
        self._joined = False

    def _disown(self, places: set[Place]) -> None:
        self._engine.forget(places)
        self._owned -= places
        self._at_end -= places
        self._paused -= places
        self._batch = [record for record in self._batch if (record.topic, record.partition) not in places]

    def _settle(self, places: set[Place] | None) -> None:
        # What was committed before it was handled would be lost if it were dropped now.
        finish_all = self._delivery is Delivery.AT_MOST_ONCE
        if not self._engine.settle(
            places, timeout_s=self._stop_timeout_s, finish_all=finish_all, hurry=self._hurry.is_set
        ):
            log.warning("handlers still run after %g s; their records are not committed", self._stop_timeout_s)

    def _shut_down(self) -> None:
        self._settle(None)
        if self._delivery is Delivery.AT_LEAST_ONCE:
            self._commit(self._engine.positions(self._owned), wait=True)
        # Close runs the revoke callback once more; what would wait there has had its time.
        self._hurry.set()
        self._consumer.close()
        self._engine.close()
        if self._letters is not None:
            self._letters.close()
        log.info("worker of group %s ended: %s", self._group, self.counts)

    def _note_error(self, message: Message, error: KafkaError) -> None:
        from confluent_kafka import KafkaError, KafkaException

        if error.code() == KafkaError._PARTITION_EOF:
            topic, partition = message.topic(), message.partition()
            assert topic is not None and partition is not None, "the end of a partition names it"
            self._at_end.add((topic, partition))
            return
        if error.fatal():
            raise KafkaException(error)
        log.warning("the consumer says: %s", error.str())

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


def _partition(place: Place, offset: int | None = None) -> TopicPartition:
    from confluent_kafka import TopicPartition

    return TopicPartition(*place) if offset is None else TopicPartition(*place, offset)


def _places(partitions: Sequence[TopicPartition]) -> set[Place]:
    return {(partition.topic, partition.partition) for partition in partitions}


def _shown(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{index}" for topic, index in sorted(_places(partitions))) or "nothing"
