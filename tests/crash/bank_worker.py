"""A worker of the bank: reads transfers, writes them to the ledger and the journal, and commits, in one transaction.

It is a separate process, so that it can be killed or paused at any moment. It exits if it is fenced, or if an error
leaves its position unknown; the parent then starts another. It processes whatever its consumer returns: a record that
is delivered twice is booked twice, which the parent finds.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

TRANSFERS, LEDGER, JOURNAL = "transfers", "ledger", "journal"
GROUP = "bank"
PARTITIONS = 3
FENCED, LOST = 3, 4
CALL_S = 5.0
QUICK: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
    # With the default, librdkafka 2.16 discards its brokers when all are down, and a call of
    # send_offsets_to_transaction at that moment never returns, regardless of its timeout.
    "metadata.recovery.strategy": "none",
}

Entry = tuple[str, int, dict[str, Any]]


class Worker:
    def __init__(self, bootstrap: str, slot: str, protocol: str, life: str, folder: Path) -> None:
        self._random = Random(life)
        self._name = f"{slot}.{life}"
        self._folder = folder
        self._batch: list[Message] = []
        self._member_id: str | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"bank-{slot}",
                "transaction.timeout.ms": 4_000,
                "linger.ms": 1,
                **QUICK,
            }
        )
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "group.protocol": protocol,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            **QUICK,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 300}
        self._consumer = Consumer(settings)

    def run(self) -> None:
        insist(lambda: self._producer.init_transactions(CALL_S))
        # With callbacks partitions are revoked only inside poll: records in a batch still belong to this member.
        self._consumer.subscribe([TRANSFERS], on_assign=self._moved, on_revoke=self._moved, on_lost=self._moved)
        for number in itertools.count():
            self._take(self._random.randint(1, 8))
            if not self._batch:
                continue
            try:
                self._transact(f"{self._name}.{number}", is_abort=self._random.random() < 0.2)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                insist(lambda: self._producer.abort_transaction(CALL_S))
                self._rewind()
            self._batch = []

    def _moved(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop the records read from these partitions. Those of others are not read again, so they stay."""
        self._member_id = consumer.memberid()
        moved = {topic_partition.partition for topic_partition in partitions}
        self._batch = [message for message in self._batch if message.partition() not in moved]

    def _take(self, count: int) -> None:
        for _ in range(count):
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._batch.append(message)

    def _transact(self, name: str, *, is_abort: bool) -> None:
        self._producer.begin_transaction()
        for topic, partition, entry in entries(self._batch, name):
            self._producer.produce(topic, json.dumps(entry), partition=partition)
            self._producer.poll(0)
        if self._random.random() < 0.5:
            self._producer.flush(CALL_S)
        ends: dict[int, int] = {}
        for message in self._batch:
            ends[message.partition() or 0] = (message.offset() or 0) + 1
        metadata = self._consumer.consumer_group_metadata()
        if self._consumer.memberid() != self._member_id:
            # The group has removed this member. librdkafka then describes it as a producer outside of the group, whose
            # offsets every coordinator accepts, Kafka's too, although another member reads the partitions by now.
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
        offsets = [TopicPartition(TRANSFERS, index, offset) for index, offset in ends.items()]
        insist(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, CALL_S))
        if is_abort:
            self._note("aborted", name)
            insist(lambda: self._producer.abort_transaction(CALL_S))
            self._rewind()
        else:
            insist(lambda: self._producer.commit_transaction(CALL_S))
            self._note("committed", name)

    def _rewind(self) -> None:
        """Seek to the committed offsets of the group, because the records read were not processed."""
        for topic_partition in self._consumer.committed(self._consumer.assignment(), CALL_S):
            topic_partition.offset = max(topic_partition.offset, 0)
            self._consumer.seek(topic_partition)

    def _note(self, outcome: str, name: str) -> None:
        with (self._folder / outcome).open("a") as file:
            file.write(name + "\n")


def entries(batch: list[Message], name: str) -> list[Entry]:
    """Return the records of a transaction; each has the number of records here and in total."""
    found: list[Entry] = []
    for message in batch:
        transfer = json.loads(message.value() or b"")
        for account, amount in ((transfer["from"], -transfer["amount"]), (transfer["to"], transfer["amount"])):
            entry = {"transfer": transfer["id"], "account": account, "amount": amount}
            found.append((LEDGER, account % PARTITIONS, entry))
        found.append((JOURNAL, message.partition() or 0, {"transfer": transfer["id"], "amount": 0}))
    here = Counter((topic, partition) for topic, partition, _ in found)
    for topic, partition, entry in found:
        entry |= {"txn": name, "all": len(found), "here": here[topic, partition]}
    return found


def insist(call: Callable[[], object]) -> None:
    """Repeat a call while its error is retriable, as librdkafka's documentation says."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if error.args[0].fatal() or not error.args[0].retriable():
                raise


def main() -> int:
    bootstrap, slot, protocol, life, folder = sys.argv[1:]
    worker = Worker(bootstrap, slot, protocol, life, Path(folder))
    try:
        worker.run()
    except KafkaException as error:
        print(slot, life, error, file=sys.stderr)
        return FENCED if error.args[0].fatal() else LOST
    return 0


if __name__ == "__main__":
    # Without an orderly shutdown: this is a crash.
    os._exit(main())
