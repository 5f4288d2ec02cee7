"""A sample cluster for the console's tests and pictures: topics, groups, dead letters, a queue, transactions, quotas.

Deterministic apart from times. Everything is written through ordinary clients, so it works on any Kafka cluster.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.worker import dead_letter
from tests.support.command import penstock
from tests.support.eventually import eventually

BIGGEST = 2**63 - 1
CUSTOMERS = ("eve", "eve", "eve", "mallory", "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
ERRORS = (
    ("ValueError", "amount must be positive, got -12"),
    ("ValueError", "amount must be positive, got 0"),
    ("KeyError", "'customer'"),
    ("payments.gateway.Timeout", "the gateway did not answer within 5 s"),
)
TRACE = """Traceback (most recent call last):
  File "billing/worker.py", line 41, in handle
    charge(order["customer"], order["amount"])
  File "billing/charge.py", line 17, in charge
    raise ValueError(f"amount must be positive, got {amount}")
ValueError: amount must be positive, got -12
"""
HOSTILE = (
    b"<script>window.hacked = true</script>",
    b"<img src=x onerror='window.hacked = true'>",
    "right to left: \u202eevil\u202c and \u2066isolated\u2069".encode(),
    b"NUL \x00, bell \x07, escape \x1b[31mred\x1b[0m",
    b"\xff\xfe invalid UTF-8 \xc3\x28",
    b"javascript:window.hacked=true",
    b'{"<b>name</b>": "</script><script>window.hacked = true</script>", "n": 9223372036854775807}',
)


def order(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "id": BIGGEST - number,
        "customer": chance.choice(CUSTOMERS),
        "amount": round(chance.uniform(5, 400), 2),
        "currency": chance.choice(("EUR", "EUR", "USD", "GBP")),
        "items": chance.randint(1, 9),
        "express": chance.random() < 0.2,
    }


def produce_orders(bootstrap: str, topic: str, count: int, *, seed: int = 1) -> None:
    """Write orders as JSON, keyed by customer."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(count):
        value = order(number, chance)
        producer.produce(topic, json.dumps(value), value["customer"], headers=[("trace", f"{number:08x}")])
        producer.poll(0)
    assert producer.flush(60) == 0


def create_topics(bootstrap: str, topics: dict[str, int], *, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, replicas) for name, count in topics.items()]).values():
        future.result()


def fill(bootstrap: str, *, replicas: int = 1) -> None:
    """Create everything that stays when its clients are gone."""
    names = {"orders": 6, "payments": 3, "shipments": 3, "orders.dlq": 1, "jobs": 2, "web.clicks": 12, "audit.log": 1}
    create_topics(bootstrap, {**names, "hostile": 1, "empty": 1}, replicas=replicas)
    produce_orders(bootstrap, "orders", 2500)
    produce_orders(bootstrap, "payments", 400, seed=2)
    produce_orders(bootstrap, "shipments", 150, seed=3)
    _write_text(bootstrap)
    _write_hostile(bootstrap)
    _write_letters(bootstrap)
    commit(bootstrap, "billing", "orders", behind=40)
    commit(bootstrap, "shipping", "orders", behind=3)
    commit(bootstrap, "analytics", "payments", behind=0)
    _check(
        "quota", "set", "--user", "reports", "producer_byte_rate=1048576", "consumer_byte_rate=4194304", at=bootstrap
    )
    _check("quota", "set", "--user", "<script>window.hacked=true</script>", "request_percentage=10", at=bootstrap)
    _check("quota", "set", "--client-id", "batch-import", "request_percentage=50", at=bootstrap)
    _check("config", "set", "--topic", "orders", "retention.ms=259200000", "max.message.bytes=2097152", at=bootstrap)


def _check(*words: str, at: str, given: str = "") -> None:
    # Playwright keeps an event loop running in this thread, and a command starts one of its own.
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(penstock, *words, "--bootstrap", at, given=given).result()
    assert done.code == 0, (words, done.out, done.err)


def _write_text(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(120):
        producer.produce("audit.log", f"user {CUSTOMERS[number % 12]} opened order {number}", None)
        producer.produce("web.clicks", json.dumps({"page": f"/product/{number % 17}", "ms": number}), str(number % 40))
        producer.produce("jobs", f"resize image {number}.png", str(number % 5))
    assert producer.flush(60) == 0


def _write_hostile(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for content in HOSTILE:
        producer.produce("hostile", content, content, headers=[(content.decode("utf-8", "replace"), content)])
    producer.produce("hostile", None, b"k" * 900_000)
    producer.produce("hostile", b"", b"")
    assert producer.flush(60) == 0


def _write_letters(bootstrap: str) -> None:
    chance = random.Random(4)
    producer = Producer({"bootstrap.servers": bootstrap})
    now_ms = int(time.time() * 1000)
    for number in range(14):
        kind, message = ERRORS[number % len(ERRORS)]
        value = order(number, chance)
        death = dead_letter.Death(
            topic="orders", partition=number % 6, offset=number * 3, timestamp_ms=now_ms - 3_600_000,
            error_class=kind, error_message=message, trace=TRACE, attempts=3,
            first_failure_ms=now_ms - 1_800_000 + number * 60_000, last_failure_ms=now_ms - 1_700_000 + number * 60_000,
            group="billing",
        )  # fmt: skip
        headers = list(dead_letter.write([("trace", f"{number:08x}".encode())], death))
        producer.produce("orders.dlq", json.dumps(value), value["customer"], headers=headers)
    assert producer.flush(60) == 0


def commit(bootstrap: str, group: str, topic: str, *, behind: int) -> None:
    """Commit offsets of a group that are `behind` records before the end of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30) for each in partitions}
        offsets = [TopicPartition(topic, each, max(low, high - behind)) for each, (low, high) in ends.items()]
        eventually(lambda: _is_committed(consumer, offsets), what=f"the commit of {group}")
    finally:
        consumer.close()


def _is_committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    """Commit; return False while the coordinator of a new cluster is being loaded."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
            raise
        return False
    return True


@contextmanager
def queue_member(bootstrap: str, *, group: str = "workers", topic: str = "jobs") -> Iterator[ShareConsumer]:
    """A member of a share group that holds some records without acknowledging them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "resizer",
         "share.acknowledgement.mode": "explicit", "max.poll.records": 5, "max.poll.interval.ms": 3_600_000}
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while not consumer.poll(timeout=1.0):
            assert time.monotonic() < deadline, "no record was delivered to the share group"
        yield consumer
    finally:
        consumer.close()


@contextmanager
def open_transaction(bootstrap: str, *, transactional_id: str = "billing-1", topic: str = "payments") -> Iterator[None]:
    """A transaction that stays open."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b'{"pending": true}', b"eve")
    producer.flush(60)
    try:
        yield
    finally:
        producer.purge()


def grant(bootstrap: str) -> None:
    """Create users and ACLs, on a cluster with an authorizer."""
    for user in ("alice", "reports"):
        _check("user", "add", user, "--password-stdin", at=bootstrap, given="correct horse\n")
    _check("acl", "allow", "alice", "read", "topic:orders", at=bootstrap)
    _check("acl", "allow", "alice", "read", "group:billing", at=bootstrap)
    _check("acl", "deny", "reports", "write", "topic:orders", at=bootstrap)


def pipeline(folder: Path) -> Path:
    """Write the folder of a pipeline that is running, with one flow that failed."""
    storage = folder / "storage"
    storage.mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(f"name: sales\nstorage: file://{storage}\n", encoding="utf-8")
    _write_state(storage)
    return folder


def _write_state(storage: Path) -> None:
    now = int(time.time() * 1000)
    flow = {
        "state": "running",
        "batch": 41,
        "rows": 2500,
        "rows_per_s": 61.5,
        "lag": 12,
        "batch_ms": 812,
        "error": None,
    }
    failed = {"state": "failed", "batch": 7, "rows": 90, "rows_per_s": 0.0, "lag": 310, "batch_ms": 1204}
    flows = [
        {"name": "clean_orders", "target": "clean_orders", **flow, "counted": {"dead_letters": 2}},
        {"name": "sales_per_customer", "target": "sales", **flow, "rows": 2498, "counted": {}},
        {"name": "late_payments", "target": "late_payments", **failed, "counted": {},
         "error": "ValueError: time data '31.02.2026' does not match format '%Y-%m-%d'"},
    ]  # fmt: skip
    state = {
        "pipeline": "sales", "mode": "continuous", "pid": os.getpid(), "started": now, "updated": now,
        "state": "running", "flows": flows,
    }  # fmt: skip
    draft = storage / "state.draft"
    draft.write_text(json.dumps(state), encoding="utf-8")
    draft.rename(storage / "state.json")


@contextmanager
def running_pipeline(folder: Path) -> Iterator[Path]:
    """A pipeline that keeps reporting."""
    made = pipeline(folder)
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(2):
            _write_state(made / "storage")

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield made
    finally:
        is_over.set()
        thread.join()
