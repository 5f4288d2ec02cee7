"""The bank: money moves in transactions while node and workers are killed, and none is lost or created.

Each round writes more transfers, kills the node with -9, and kills a worker or pauses one while another takes over
its transactional id. `PENSTOCK_BANK_ROUNDS` sets the number of rounds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from penstock.testing.process import BrokerProcess
from tests.crash import bank_worker
from tests.crash.bank_worker import JOURNAL, LEDGER, PARTITIONS, QUICK, TRANSFERS
from tests.integration.conftest import GROUP_SETTINGS
from tests.support.eventually import eventually

ROUNDS = int(os.environ.get("PENSTOCK_BANK_ROUNDS", "22"))
SETTINGS = {
    **GROUP_SETTINGS,
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
WORKERS = 3
ACCOUNTS = 12
OPENING = 100
TRANSFERS_PER_ROUND = 40
PATIENCE_S = 240.0

Place = tuple[str, int, int]


class Reader:
    """A read_committed consumer that survives the broker; at each end it must have seen whole transactions."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: dict[Place, dict[str, Any]] = {}
        self.at_end: set[tuple[str, int]] = set()
        self._by_transaction: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # An offset that was visible and is gone is an error, not a reset.
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                **QUICK,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, index, 0) for topic in (LEDGER, JOURNAL) for index in range(PARTITIONS)]
        )

    def watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(min(left, 0.1))
            if message is not None:
                self._take(message)

    def _take(self, message: Message) -> None:
        error, topic, index, offset = message.error(), message.topic(), message.partition(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            assert error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN), error
            return
        assert topic is not None and index is not None and offset is not None
        if error is not None:
            self.at_end.add((topic, index))
            for name, count in self._by_transaction[topic, index].items():
                assert count == 0, f"{name} is torn in {topic}-{index} before {offset}: {count} are missing"
            self._by_transaction[topic, index].clear()
            return
        entry: dict[str, Any] = json.loads(message.value() or b"")
        assert (topic, index, offset) not in self.seen, "shown twice"
        self.seen[topic, index, offset] = entry
        missing = self._by_transaction[topic, index]
        missing[entry["txn"]] = missing.get(entry["txn"], entry["here"]) - 1

    def close(self) -> None:
        self._consumer.close()


class Bootstrapped(Protocol):
    """The address of a broker or a cluster."""

    @property
    def bootstrap(self) -> str: ...


class Bank:
    """The broker, the workers and their input."""

    def __init__(self, broker: Bootstrapped, protocol: str, folder: Path) -> None:
        self._broker = broker
        self._protocol = protocol
        self._folder = folder
        self._random = Random(protocol)
        self._lives = 0
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._zombies: list[subprocess.Popen[bytes]] = []
        self.exits: Counter[int] = Counter()
        self.transfers: list[dict[str, int]] = []
        self._customers = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1, **QUICK}
        )

    def open_accounts(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        topics = [NewTopic(name, PARTITIONS) for name in (TRANSFERS, LEDGER, JOURNAL)]
        for created in admin.create_topics(topics).values():
            created.result(60)
        for account in range(ACCOUNTS):
            entry = {"transfer": -1, "account": account, "amount": OPENING, "txn": f"opening {account}"}
            value = json.dumps({**entry, "all": 1, "here": 1})
            self._customers.produce(LEDGER, value, partition=account % PARTITIONS)
        assert self._customers.flush(60) == 0

    def order(self, count: int) -> None:
        """Write more transfers for the workers."""
        for _ in range(count):
            payer, payee = self._random.sample(range(ACCOUNTS), 2)
            number = len(self.transfers)
            transfer = {"id": number, "from": payer, "to": payee, "amount": self._random.randint(1, 50)}
            self.transfers.append(transfer)
            self._customers.produce(TRANSFERS, json.dumps(transfer), partition=number % PARTITIONS)
            self._customers.poll(0)

    def staff(self) -> None:
        """Start missing workers."""
        for slot in range(WORKERS):
            worker = self._workers.get(slot)
            if worker is not None and worker.poll() is None:
                continue
            if worker is not None:
                self.exits[worker.returncode] += 1
            self._lives += 1
            words = [sys.executable, bank_worker.__file__, self._broker.bootstrap, str(slot), self._protocol]
            with (self._folder / "workers.stderr").open("ab") as log:
                self._workers[slot] = subprocess.Popen([*words, str(self._lives), str(self._folder)], stderr=log)

    def disturb(self) -> None:
        """Disturb a worker: nothing, a kill, or a long pause after which it runs beside its successor."""
        self.wake()
        slot = self._random.randrange(WORKERS)
        fate = self._random.choice(["nothing", "kill", "hold", "hold"])
        if fate == "kill":
            self._workers[slot].kill()
            self._workers[slot].wait()
        elif fate == "hold":
            held = self._workers.pop(slot)
            held.send_signal(signal.SIGSTOP)
            self._zombies.append(held)

    def wake(self) -> None:
        for zombie in self._zombies:
            zombie.send_signal(signal.SIGCONT)

    def finish(self) -> None:
        assert self._customers.flush(PATIENCE_S) == 0

    def dismiss(self) -> None:
        for process in [*self._workers.values(), *self._zombies]:
            process.kill()
            self.exits[process.wait()] += 1

    def noted(self, outcome: str) -> set[str]:
        path = self._folder / outcome
        return set(path.read_text().split()) if path.exists() else set()


def is_at_rest(bootstrap: str) -> bool:
    """Return whether no transaction is open: each last stable offset is the high watermark."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = {
        TopicPartition(topic, index): OffsetSpec.latest()
        for topic in (LEDGER, JOURNAL, "__consumer_offsets")
        for index in range(PARTITIONS)
    }
    ends = []
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        answers = admin.list_offsets(asked, isolation_level=isolation)
        ends.append([answers[position].result(60).offset for position in asked])
    return ends[0] == ends[1]


def check(seen: dict[Place, dict[str, Any]], transfers: list[dict[str, int]]) -> None:
    """Check the books."""
    ledger = [entry for (topic, _, _), entry in seen.items() if topic == LEDGER]
    assert sum(entry["amount"] for entry in ledger) == ACCOUNTS * OPENING
    parts = Counter(entry["txn"] for entry in seen.values())
    torn = [entry["txn"] for entry in seen.values() if parts[entry["txn"]] != entry["all"]]
    assert torn == [], "some transactions are incomplete"
    booked = sorted((entry["transfer"], entry["account"], entry["amount"]) for entry in ledger)
    expected = [(-1, account, OPENING) for account in range(ACCOUNTS)]
    for transfer in transfers:
        expected.append((transfer["id"], transfer["from"], -transfer["amount"]))
        expected.append((transfer["id"], transfer["to"], transfer["amount"]))
    assert booked == sorted(expected), "some transfers are not booked exactly once"
    for index in range(PARTITIONS):
        done = [seen[position]["transfer"] for position in sorted(seen) if position[:2] == (JOURNAL, index)]
        assert done == list(range(index, len(transfers), PARTITIONS)), "inputs are missing, duplicated or out of order"


@pytest.mark.timeout(600 + 8 * ROUNDS)
@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def test_money_is_neither_lost_nor_created_while_node_and_workers_are_killed(tmp_path: Path, protocol: str) -> None:
    random = Random(protocol)
    with BrokerProcess(SETTINGS, data=tmp_path / "data") as broker:
        bank = Bank(broker, protocol, tmp_path)
        bank.open_accounts()
        reader = Reader(broker.bootstrap)
        try:
            for _ in range((ROUNDS + 1) // 2):
                bank.staff()
                bank.order(TRANSFERS_PER_ROUND)
                reader.watch(random.uniform(0.6, 1.6))
                bank.disturb()
                bank.staff()
                reader.watch(random.uniform(0, 0.3))
                broker.kill()
                broker.start()
            bank.finish()
            bank.wake()
            entries = ACCOUNTS + 3 * len(bank.transfers)
            deadline = time.monotonic() + PATIENCE_S
            while len(reader.seen) < entries:
                assert time.monotonic() < deadline, f"{len(reader.seen)} of {entries} in time"
                bank.staff()
                reader.watch(0.2)
        finally:
            bank.dismiss()
        eventually(lambda: is_at_rest(broker.bootstrap))
        reader.watch(0.5)
        late = Reader(broker.bootstrap)
        while len(late.at_end) < 2 * PARTITIONS:
            late.watch(0.2)
        assert late.seen == reader.seen, "a late reader must see the same records"
        check(reader.seen, bank.transfers)
        shown = {entry["txn"] for entry in reader.seen.values()}
        assert not shown & bank.noted("aborted"), "aborted records must never be visible"
        assert bank.noted("committed") <= shown, "committed records are missing"
        assert bank.noted("aborted") and bank.noted("committed")
        assert bank.exits.keys() <= {bank_worker.FENCED, bank_worker.LOST, -signal.SIGKILL}, bank.exits
        late.close()
        reader.close()
        assert broker.stop() == 0
    log = broker.log_path.read_text()
    assert "Traceback" not in log, log
