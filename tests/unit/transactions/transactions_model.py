"""Model partitions and producers around a shard, detailed enough to check the guarantees of transactions.

A partition has the producer state of Kafka's log: epoch, next sequence, and whether a transaction is open.
A producer behaves like real ones: it commits only acknowledged writes, and stops when it is fenced.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.model.ids import TopicPartition
from penstock.transactions.commands import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    Markers,
    MarkersWritten,
    VerifyPartitions,
)
from penstock.transactions.states import ENDING
from tests.unit.transactions.harness import TIMEOUT_MS, Harness, partition

OK = 0
CONCURRENT = 51
REFUSED_BY_LOG = 47
PARTITIONS = tuple(partition(index) for index in range(3))


class Token(NamedTuple):
    """A transaction as identified by its producer."""

    producer: int
    number: int


@dataclass
class ProducerInLog:
    epoch: int = -1
    next_sequence: int = 0
    open: set[Token] = field(default_factory=set)


class Partition:
    def __init__(self) -> None:
        self.producers: dict[int, ProducerInLog] = {}
        self.outcomes: dict[Token, set[bool]] = {}
        """The kinds of marker that have ended writes of a transaction in this partition."""

    def of(self, producer_id: int) -> ProducerInLog:
        return self.producers.setdefault(producer_id, ProducerInLog())

    def has_open(self, producer_id: int, epoch: int) -> bool:
        known = self.of(producer_id)
        return bool(known.open) and known.epoch == epoch

    def append(self, producer_id: int, epoch: int, sequence: int, token: Token) -> bool:
        """Append a write; return False if it is rejected. A duplicate is accepted but not written."""
        known = self.of(producer_id)
        if epoch < known.epoch:
            return False
        if epoch > known.epoch:
            known.epoch, known.next_sequence = epoch, 0
        if sequence < known.next_sequence:
            return True
        if sequence > known.next_sequence:
            return False
        known.next_sequence += 1
        known.open.add(token)
        return True

    def mark(self, markers: Markers) -> None:
        known = self.of(markers.producer_id)
        if markers.epoch < known.epoch:
            return
        if markers.epoch > known.epoch:
            known.epoch, known.next_sequence = markers.epoch, 0
        for token in known.open:
            self.outcomes.setdefault(token, set()).add(markers.is_commit)
        known.open.clear()


@dataclass
class Write:
    """A produce request in flight."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    sequence: int
    token: Token


@dataclass
class Producer:
    number: int
    transactional_id: str
    version: int
    producer_id: int = -1
    epoch: int = -1
    transactions: int = 0
    unacknowledged: int = 0
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    has_written: bool = False
    must_init: bool = False
    """It aborted with a write in flight: only a new epoch keeps that write out of the next transaction."""
    ends: EndTxn | None = None
    """The EndTxn that it waits for."""
    is_fatal: bool = False

    @property
    def token(self) -> Token:
        return Token(self.number, self.transactions)

    @property
    def is_ready(self) -> bool:
        return self.producer_id >= 0 and not self.is_fatal and not self.must_init and self.ends is None


class TransactionsModel:
    def __init__(self) -> None:
        self.host = Harness()
        self.partitions = {name: Partition() for name in PARTITIONS}
        self.left: list[tuple[Markers, set[TopicPartition]]] = []
        """The partitions of each decided transaction that still lack a marker."""
        self.granted: dict[str, list[tuple[int, int]]] = {}
        """Producer ids and epochs in the order in which InitProducerId returned them."""
        self.finished: list[Markers] = []
        self.committed: set[Token] = set()
        self.aborted: set[Token] = set()

    # -- requests --------------------------------------------------------------------------

    def init(self, producer: Producer, *, goes_on: bool) -> None:
        has_id = goes_on and producer.producer_id >= 0
        reply = self.ask(
            InitProducerId(
                transactional_id=producer.transactional_id,
                timeout_ms=TIMEOUT_MS,
                producer_id=producer.producer_id if has_id else -1,
                epoch=producer.epoch if has_id else -1,
            )
        )
        if reply.error == OK:
            granted = (reply.producer_id, reply.epoch)
            given = self.granted.setdefault(producer.transactional_id, [])
            assert granted not in given or has_id, "a new producer must get an unused epoch"
            given.append(granted)
            producer.must_init = False
            self._start(producer, *granted)
        elif reply.error != CONCURRENT:
            assert has_id, f"a new producer was rejected with {reply.error}"
            producer.is_fatal = True

    def _start(self, producer: Producer, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (producer.producer_id, producer.epoch):
            producer.sequences.clear()
        producer.producer_id, producer.epoch = producer_id, epoch
        producer.transactions += 1
        producer.unacknowledged = 0
        producer.has_written = False
        producer.ends = None

    def deliver_write(self, producer: Producer, write: Write, *, is_first: bool) -> None:
        error = self._write(producer, write)
        if is_first and write.token == producer.token:
            if error == OK:
                producer.unacknowledged -= 1
            elif error not in (OK, CONCURRENT):
                producer.is_fatal = True

    def _write(self, producer: Producer, write: Write) -> int:
        """Verify or add as the handlers do, then append, in one step, which the log's verification guard ensures."""
        log = self.partitions[write.partition]
        if not log.has_open(write.producer_id, write.epoch):
            error = self._admit(producer, write)
            if error:
                return error
        if not log.append(write.producer_id, write.epoch, write.sequence, write.token):
            return REFUSED_BY_LOG
        self._check_fenced(producer, write)
        return OK

    def _admit(self, producer: Producer, write: Write) -> int:
        if producer.version == 2:
            added: int = self.ask(
                AddPartitions(
                    transactional_id=producer.transactional_id,
                    producer_id=write.producer_id,
                    epoch=write.epoch,
                    partitions=frozenset({write.partition}),
                    client_version=2,
                )
            )
            return added
        verified: tuple[int, ...] = self.ask(
            VerifyPartitions(
                transactional_id=producer.transactional_id,
                producer_id=write.producer_id,
                epoch=write.epoch,
                partitions=(write.partition,),
            )
        )
        return verified[0]

    def _check_fenced(self, producer: Producer, write: Write) -> None:
        """Invariant 39: when a newer producer has its epoch, no older one can write."""
        given = self.granted[producer.transactional_id]
        newest_id, newest_epoch = given[-1]
        if write.producer_id == newest_id:
            assert write.epoch >= newest_epoch, f"{write} was written after {given[-1]} was returned"
        else:
            granted = [epoch for producer_id, epoch in given if producer_id == write.producer_id]
            is_rotated = write.producer_id > newest_id
            assert is_rotated or not granted, f"{write} was written after {given[-1]} was returned"

    def deliver_end(self, producer: Producer, command: EndTxn, token: Token) -> None:
        before = self.host.shard.transactions[producer.transactional_id]
        reply = self.ask(command)
        after = self.host.shard.transactions[producer.transactional_id]
        if command.client_version == 2 and after.state in ENDING and before.state not in ENDING:
            # Invariant 40: a producer ends only its own transaction.
            assert (before.producer_id, before.epoch) == (command.producer_id, command.epoch)
            for log in self.partitions.values():
                assert log.of(before.producer_id).open <= {token}
        if producer.ends is not command:
            return
        if reply.error == OK:
            (self.committed if command.is_commit else self.aborted).add(token)
            if command.client_version == 2:
                self._start(producer, reply.producer_id, reply.epoch)
            else:
                producer.must_init = producer.unacknowledged > 0
                self._start(producer, producer.producer_id, producer.epoch)
        elif reply.error != CONCURRENT:
            producer.is_fatal = True

    def ask(self, command: Any) -> Any:
        reply = self.host.ask(command)
        self._take_jobs()
        return reply

    # -- markers, time, crashes ------------------------------------------------------------

    def _take_jobs(self) -> None:
        for markers in self.host.jobs:
            self.left.append((markers, set(markers.partitions)))
        self.host.jobs.clear()

    def write_marker(self, job: int, which: int) -> None:
        markers, left = self.left[job % len(self.left)]
        if left:
            name = sorted(left)[which % len(left)]
            self.partitions[name].mark(markers)
            left.discard(name)
        else:
            self.left.remove((markers, left))
            assert self.host.run(MarkersWritten(markers)) is True
            self.finished.append(markers)

    def finish_markers(self) -> None:
        while self.left:
            self.write_marker(0, 0)

    def repeat_completion(self, which: int) -> None:
        """Repeat the completion of a job whose first reply was lost."""
        assert self.host.run(MarkersWritten(self.finished[which % len(self.finished)])) is False

    def advance(self, delay_ms: int) -> None:
        self.host.advance(delay_ms)
        self._take_jobs()

    def crash(self) -> None:
        """Lose everything except the logs."""
        self.left.clear()
        self.host.restart()
        self._take_jobs()

    def crash_while(self, command: Any, *, is_committed: bool) -> None:
        """Crash after a decision: before its record is committed, or before its reply is sent."""
        decision = self.host.shard.decide(command, ticket=1, now=self.host.now)  # type: ignore[arg-type]
        if is_committed:
            self.host.carry_out(decision, performs=False)
        self.crash()

    # -- checking --------------------------------------------------------------------------

    def check(self) -> None:
        for name in self.host.shard.transactions:
            jobs = [markers for markers, _ in self.left if markers.transactional_id == name]
            is_ending = self.host.state(name) in ENDING
            assert len(jobs) == (1 if is_ending else 0), "each decided transaction, and no other, must have one job"
        for token, kinds in self.outcomes().items():
            assert len(kinds) == 1, f"{token} was committed in one partition and aborted in another"
            assert (token not in self.committed) or kinds == {True}
            assert (token not in self.aborted) or kinds == {False}

    def outcomes(self) -> dict[Token, set[bool]]:
        found: dict[Token, set[bool]] = {}
        for log in self.partitions.values():
            for token, kinds in log.outcomes.items():
                found.setdefault(token, set()).update(kinds)
        return found

    def finish_all(self) -> None:
        """Invariant 41: open transactions are decided by their timeout, and then all are completed."""
        for _ in range(3):
            self.advance(TIMEOUT_MS + 1)
            self.finish_markers()
        for value in self.host.shard.transactions.values():
            assert not value.partitions and value.state.name not in ("ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT")
        for name, log in self.partitions.items():
            hanging = {producer_id: known.open for producer_id, known in log.producers.items() if known.open}
            assert not hanging, f"{name} has open transactions of {hanging}"
        self.check()

    def complete_a_transaction(self, producer: Producer) -> None:
        """Check that a new producer can always complete a transaction."""
        self.init(producer, goes_on=False)
        assert producer.is_ready
        for sequence, name in enumerate(PARTITIONS):
            if producer.version == 0:
                error = self.ask(
                    AddPartitions(
                        transactional_id=producer.transactional_id,
                        producer_id=producer.producer_id,
                        epoch=producer.epoch,
                        partitions=frozenset({name}),
                    )
                )
                assert error == OK
            producer.unacknowledged += 1
            write = Write(name, producer.producer_id, producer.epoch, 0, producer.token)
            self.deliver_write(producer, write, is_first=True)
            assert producer.unacknowledged == 0, f"write {sequence} of a healthy producer was rejected"
        token = producer.token
        producer.ends = EndTxn(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            is_commit=True,
            client_version=producer.version,
        )
        self.deliver_end(producer, producer.ends, token)
        assert token in self.committed
        self.finish_markers()
        self.check()
