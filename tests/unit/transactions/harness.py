"""A shard with an in-memory log, clock, timers and marker writer; invariants are checked after every step."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from penstock.coordinator.decision import NO_TICKET, Expired, ShardDecision, Ticket
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.transactions.commands import (
    AbortNeedsProducerId,
    AbortTimedOut,
    AddPartitions,
    EndTxn,
    InitProducerId,
    Markers,
    MarkersWritten,
    ProducerIdNeeded,
    VerifyPartitions,
)
from penstock.transactions.records import TransactionRecord, TransactionValue, decode
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard
from penstock.transactions.states import ENDING, State, is_legal

ID = "t"
TIMEOUT_MS = 60_000


def partition(index: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


P0, P1, P2 = partition(0), partition(1), partition(2)


class Harness:
    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.now = 1_700_000_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Hashable, int] = {}
        self.jobs: list[Markers] = []
        """Markers to be written."""
        self.decided: list[TransactionRecord] = []
        """Every Prepare* record ever written."""
        self.next_producer_id = 1_000
        self.has_producer_ids = True
        self.shard = TransactionShard(self.settings)
        self.carry_out(self.shard.loaded(self.now))

    # -- running ---------------------------------------------------------------------------

    def ask(self, command: Any) -> Any:
        """Run a command as the service does; return the reply."""
        reply = self.run(command)
        if isinstance(reply, ProducerIdNeeded):
            reply = self.run(replace(command, fresh_producer_id=self.take_producer_id()))
        return reply

    def run(self, command: Any) -> Any:
        decision = self.decide(command, Ticket(1))
        self.carry_out(decision)
        ((ticket, reply),) = decision.replies
        assert ticket == 1
        return reply

    def decide(self, command: Any, ticket: Ticket) -> ShardDecision[TransactionRecord]:
        before = dict(self.shard.transactions), dict(self.shard.volatile)
        decision = self.shard.decide(command, ticket=ticket, now=self.now)
        assert before == (self.shard.transactions, self.shard.volatile), "deciding changed the state"
        return decision

    def carry_out(self, decision: ShardDecision[TransactionRecord], *, performs: bool = True) -> None:
        for record in decision.records:
            self.check_step(record)
        self.log += [self.shard.encode(record) for record in decision.records]
        self.shard.adopt(decision.drafts)
        for record in decision.records:
            self.shard.apply(record)
        for key, delay_ms in decision.timers.items():
            assert delay_ms is not None
            self.timers[key] = self.now + delay_ms
        self.check()
        if performs:
            for action in decision.actions:
                self.perform(action)

    def perform(self, action: Any) -> None:
        if isinstance(action, Markers):
            self.jobs.append(action)
        else:
            assert isinstance(action, AbortNeedsProducerId)
            if self.has_producer_ids:
                self.run(AbortTimedOut(action.transactional_id, self.take_producer_id()))

    def take_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def write_markers(self) -> list[Markers]:
        """Complete all decided transactions; return the markers written."""
        jobs, self.jobs = self.jobs, []
        for markers in jobs:
            assert self.run(MarkersWritten(markers)) is True
        return jobs

    def advance(self, delay_ms: int) -> None:
        """Let time pass; timers fire in order, each at its own time."""
        until = self.now + delay_ms
        while due := [(at, key) for key, at in self.timers.items() if at <= until]:
            at, key = min(due, key=lambda each: each[0])
            del self.timers[key]
            self.now = max(self.now, at)
            self.carry_out(self.decide(Expired(key), NO_TICKET))
        self.now = until

    def restart(self) -> None:
        self.jobs.clear()
        self.timers.clear()
        self.shard = self.replayed()
        self.carry_out(self.shard.loaded(self.now))

    # -- checking --------------------------------------------------------------------------

    def check_step(self, record: TransactionRecord) -> None:
        before = self.shard.transactions.get(record.transactional_id)
        if record.value is None:
            assert before is not None and is_legal(before.state, State.DEAD)
            return
        assert is_legal(None if before is None else before.state, record.value.state)
        if record.value.state in ENDING:
            self.decided.append(record)
        elif before is not None and before.state in ENDING:
            assert not self.jobs or all(job.transactional_id != record.transactional_id for job in self.jobs)

    def check(self) -> None:
        """Check that state equals the log, that open transactions have a timer and decided ones their markers."""
        assert self.replayed().transactions == self.shard.transactions
        for name, value in self.shard.transactions.items():
            volatile = self.shard.volatile.get(name)
            if value.state in ENDING:
                assert volatile is not None and volatile.markers is not None
            else:
                assert volatile is None or volatile.markers is None

    def replayed(self) -> TransactionShard:
        shard = TransactionShard(self.settings)
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            shard.apply(record)
        return shard

    # -- requests --------------------------------------------------------------------------

    def init(self, *, producer_id: int = -1, epoch: int = -1, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> Any:
        return self.ask(
            InitProducerId(transactional_id=name, timeout_ms=timeout_ms, producer_id=producer_id, epoch=epoch)
        )

    def add(self, producer_id: int, epoch: int, *partitions: TopicPartition, version: int = 2, name: str = ID) -> int:
        reply = self.ask(
            AddPartitions(
                transactional_id=name,
                producer_id=producer_id,
                epoch=epoch,
                partitions=frozenset(partitions or (P0,)),
                client_version=version,
            )
        )
        assert isinstance(reply, int)
        return reply

    def verify(self, producer_id: int, epoch: int, *partitions: TopicPartition, name: str = ID) -> tuple[int, ...]:
        reply = self.ask(
            VerifyPartitions(transactional_id=name, producer_id=producer_id, epoch=epoch, partitions=partitions)
        )
        assert isinstance(reply, tuple)
        return reply

    def end(self, producer_id: int, epoch: int, *, commit: bool, version: int = 2, name: str = ID) -> Any:
        return self.ask(
            EndTxn(
                transactional_id=name,
                producer_id=producer_id,
                epoch=epoch,
                is_commit=commit,
                client_version=version,
            )
        )

    def value(self, name: str = ID) -> TransactionValue:
        return self.shard.transactions[name]

    def state(self, name: str = ID) -> State:
        return self.value(name).state

    def put(self, value: TransactionValue, name: str = ID) -> None:
        """Put the id into a state that would take many requests to reach."""
        record = TransactionRecord(name, value)
        self.log.append(self.shard.encode(record))
        self.restart()
