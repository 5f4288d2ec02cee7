"""Late and repeated requests, zombies, timeouts and crashes in random order, checked against the invariants."""

from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.transactions.commands import AddPartitions, EndTxn, InitProducerId
from penstock.transactions.records import TransactionValue
from penstock.transactions.states import State
from tests.unit.transactions.harness import TIMEOUT_MS
from tests.unit.transactions.transactions_model import OK, PARTITIONS, Producer, Token, TransactionsModel, Write

IDS = st.sampled_from(("a", "a", "a", "b"))
WHICH = st.integers(0, 7)
SELDOM = st.sampled_from((False, False, False, False, True))
PRODUCERS_MAX = 5


class TransactionMachine(RuleBasedStateMachine):
    producers = Bundle("producers")

    def __init__(self) -> None:
        super().__init__()
        self.world = TransactionsModel()
        self.count = 0
        self.writes: list[tuple[Producer, Write, bool]] = []
        """In flight: the producer, the request, and whether it is the first copy of it."""
        self.ends: list[tuple[Producer, EndTxn, Token]] = []

    @initialize(target=producers, version=st.sampled_from((0, 2, 2)), epoch=st.sampled_from((-1, 0, 32_764, 32_766)))
    def begin(self, version: int, epoch: int) -> Producer:
        return self._begin(version, epoch)

    def _begin(self, version: int, epoch: int) -> Producer:
        """Start some runs near the last epoch, because epochs run out."""
        if epoch >= 0:
            self.world.host.put(
                TransactionValue(
                    producer_id=900,
                    previous_producer_id=900,
                    epoch=epoch,
                    timeout_ms=TIMEOUT_MS,
                    state=State.EMPTY,
                    last_update_ms=self.world.host.now,
                ),
                "a",
            )
        return self._producer("a", version)

    @precondition(lambda self: self.count < PRODUCERS_MAX)
    @rule(target=producers, name=IDS, version=st.sampled_from((0, 2)))
    def start_producer(self, name: str, version: int) -> Producer:
        """Start a producer; one with an id in use turns the other into a zombie."""
        return self._producer(name, version)

    def _producer(self, name: str, version: int) -> Producer:
        self.count += 1
        producer = Producer(self.count, name, version)
        self.world.init(producer, goes_on=False)
        return producer

    @rule(producer=producers, goes_on=st.booleans(), wants=SELDOM)
    def init(self, producer: Producer, goes_on: bool, wants: bool) -> None:
        """Initialise a producer that must, or whose process was restarted."""
        if producer.ends is not None:
            return
        if wants or not producer.is_ready:
            producer.is_fatal = producer.is_fatal and goes_on
            if not producer.is_fatal:
                self.world.init(producer, goes_on=goes_on and not wants)

    # -- writing ---------------------------------------------------------------------------

    @rule(producer=producers, partition=st.sampled_from(PARTITIONS), is_sent_twice=st.booleans(), now=st.booleans())
    def write(self, producer: Producer, partition: Any, is_sent_twice: bool, now: bool) -> None:
        if not producer.is_ready:
            return
        if producer.version == 0 and not self._add(producer, partition):
            return
        sequence = producer.sequences.get(partition, 0)
        write = Write(partition, producer.producer_id, producer.epoch, sequence, producer.token)
        producer.sequences[partition] = sequence + 1
        producer.unacknowledged += 1
        producer.has_written = True
        if is_sent_twice:
            self.writes.append((producer, write, False))
        if now:
            self.world.deliver_write(producer, write, is_first=True)
            if write.token == producer.token and producer.unacknowledged and not producer.is_fatal:
                # The producer retries it.
                self.writes.append((producer, write, True))
        else:
            self.writes.append((producer, write, True))

    def _add(self, producer: Producer, partition: Any) -> bool:
        reply = self.world.ask(
            AddPartitions(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                partitions=frozenset({partition}),
            )
        )
        if reply not in (OK, 51):
            producer.is_fatal = True
        return bool(reply == OK)

    @precondition(lambda self: self.writes)
    @rule(which=WHICH)
    def deliver_write(self, which: int) -> None:
        producer, write, is_first = self.writes.pop(which % len(self.writes))
        unacknowledged = producer.unacknowledged
        self.world.deliver_write(producer, write, is_first=is_first)
        is_waiting = is_first and write.token == producer.token and not producer.is_fatal
        if is_waiting and producer.unacknowledged == unacknowledged:
            self.writes.append((producer, write, True))

    # -- ending ----------------------------------------------------------------------------

    @rule(producer=producers, wants_commit=st.booleans(), copies=st.integers(1, 3))
    def end(self, producer: Producer, wants_commit: bool, copies: int) -> None:
        """End a transaction; the producer commits only acknowledged writes, and an old one sends nothing twice."""
        if not producer.is_ready or (producer.version == 0 and not producer.has_written):
            return
        command = EndTxn(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            is_commit=wants_commit and producer.has_written and not producer.unacknowledged,
            client_version=producer.version,
        )
        producer.ends = command
        self.ends += [(producer, command, producer.token)] * (copies if producer.version == 2 else 1)

    @precondition(lambda self: self.ends)
    @rule(which=WHICH)
    def deliver_end(self, which: int) -> None:
        producer, command, token = self.ends.pop(which % len(self.ends))
        self.world.deliver_end(producer, command, token)
        if producer.ends is command and producer.is_fatal:
            producer.ends = None
        elif producer.ends is command:
            # The producer retries it.
            self.ends.append((producer, command, token))

    @rule(
        producer=producers,
        partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3),
        is_sent_twice=st.booleans(),
        commit=st.booleans(),
        copies=st.integers(1, 3),
        hears_of_it=st.booleans(),
    )
    def run_transaction(
        self,
        producer: Producer,
        partitions: list[Any],
        is_sent_twice: bool,
        commit: bool,
        copies: int,
        hears_of_it: bool,
    ) -> None:
        """Run a whole transaction first, because most failures need an earlier successful one."""
        self.world.finish_markers()
        for partition in partitions:
            self.write(producer, partition, is_sent_twice, True)
        self.end(producer, commit, copies)
        if producer.ends is not None and hears_of_it:
            self.deliver_end(len(self.ends) - 1)

    # -- markers, time, crashes ------------------------------------------------------------

    @precondition(lambda self: self.world.left)
    @rule(job=WHICH, which=WHICH)
    def write_marker(self, job: int, which: int) -> None:
        self.world.write_marker(job, which)

    @precondition(lambda self: self.world.left)
    @rule()
    def finish_markers(self) -> None:
        self.world.finish_markers()

    @precondition(lambda self: self.world.finished)
    @rule(which=WHICH)
    def repeat_completion(self, which: int) -> None:
        self.world.repeat_completion(which)

    @rule(delay_ms=st.sampled_from((1, 1_000, TIMEOUT_MS // 2, TIMEOUT_MS + 1)))
    def time_passes(self, delay_ms: int) -> None:
        self.world.advance(delay_ms)

    @rule(does=SELDOM)
    def crash(self, does: bool) -> None:
        if does:
            self.world.crash()

    @precondition(lambda self: self.ends)
    @rule(which=WHICH, is_committed=st.booleans())
    def crash_while_ending(self, which: int, is_committed: bool) -> None:
        self.world.crash_while(self.ends[which % len(self.ends)][1], is_committed=is_committed)

    @rule(name=IDS, is_committed=st.booleans(), does=SELDOM)
    def crash_while_initialising(self, name: str, is_committed: bool, does: bool) -> None:
        if does:
            fresh = self.world.host.take_producer_id()
            command = InitProducerId(transactional_id=name, timeout_ms=TIMEOUT_MS, fresh_producer_id=fresh)
            self.world.crash_while(command, is_committed=is_committed)

    @invariant()
    def check(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.finish_all()
        for token in self.world.committed:
            kinds = self.world.outcomes().get(token)
            assert kinds == {True}, f"{token} was acknowledged as committed and is {kinds}"
        for version in (0, 2):
            self.count += 1
            self.world.complete_a_transaction(Producer(self.count, "a", version))


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=40, stateful_step_count=50)


@pytest.mark.slow
class TestTransactionsForLong(TestTransactions):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=200, stateful_step_count=50)


STEPS = 250
FEW = range(20)
MORE = range(20, 80)


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE)])
def test_long_runs_with_many_transactions(seed: int) -> None:
    """Apply the same rules by weight, because unweighted runs seldom have transactions that live long enough."""
    random = Random(seed)
    machine = TransactionMachine()
    producers = [machine._begin(random.choice((0, 2, 2)), random.choice((-1, 0, 32_764, 32_766)))]
    weights = random.choice((CALM, ROUGH))
    for _ in range(STEPS):
        step = random.choices(list(weights), list(weights.values()))[0]
        take_step(machine, step, producers, random)
        machine.check()
    machine.teardown()


CALM = {
    "run": 20, "write": 20, "deliver_write": 15, "end": 15, "deliver_end": 30, "marker": 30, "finish": 10,
    "repeat": 5, "time": 1, "late": 1, "init": 4, "start": 1, "crash": 1, "crash_end": 1, "crash_init": 0,
}  # fmt: skip
ROUGH = CALM | {"run": 8, "finish": 3, "time": 6, "late": 4, "start": 3, "crash": 4, "crash_end": 6, "crash_init": 2}


def take_step(machine: TransactionMachine, step: str, producers: list[Producer], random: Random) -> None:
    producer, which, coin = random.choice(producers[-3:]), random.randrange(8), random.random() < 0.5
    partition = random.choice(PARTITIONS)
    match step:
        case "run":
            if not producer.is_ready:
                machine.init(producer, coin, False)
            names = random.sample(PARTITIONS, random.randint(1, 3))
            machine.run_transaction(producer, names, coin, random.random() < 0.7, which % 3 + 1, random.random() < 0.8)
        case "write":
            machine.write(producer, partition, coin, random.random() < 0.7)
        case "deliver_write" if machine.writes:
            machine.deliver_write(which)
        case "end":
            machine.end(producer, random.random() < 0.7, which % 3 + 1)
        case "deliver_end" if machine.ends:
            machine.deliver_end(which)
        case "marker" if machine.world.left:
            machine.write_marker(which, random.randrange(3))
        case "finish":
            machine.world.finish_markers()
        case "repeat" if machine.world.finished:
            machine.repeat_completion(-1 - which)
        case "time":
            machine.time_passes(TIMEOUT_MS // 2)
        case "late":
            machine.time_passes(TIMEOUT_MS + 1)
        case "init":
            machine.init(producer, random.random() < 0.7, random.random() < 0.1)
        case "start":
            producers.append(machine._producer(random.choice("aaab"), random.choice((0, 2, 2))))
        case "crash":
            machine.world.crash()
        case "crash_end" if machine.ends:
            machine.crash_while_ending(which, coin)
        case "crash_init":
            machine.crash_while_initialising("a", coin, True)
