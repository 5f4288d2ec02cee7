"""Tests of penstock queue, penstock dlq and the SQL tables of share groups against a live broker."""

import json
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.actions.connection import Connection
from penstock.actions.names import share_group_names
from penstock.sqlview import query
from penstock.testing import Broker
from tests.support.command import Outcome, penstock
from tests.support.eventually import eventually
from tests.support.ports import free_ports

GROUP = "workers"
COUNT = 10
REJECTED, RELEASED = 3, 5


@pytest.fixture
def broker() -> Iterator[Broker]:
    (port,) = free_ports(1)
    with Broker({"metrics.listener": f"http://127.0.0.1:{port}"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic("jobs", 1), NewTopic("dlq.jobs", 1)]).values():
            future.result()
        values = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dlq.jobs"}
        entries = [ConfigEntry(key, text, incremental_operation=AlterConfigOpType.SET) for key, text in values.items()]
        resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(COUNT):
            producer.produce("jobs", f"job {number}", key=str(number))
        assert producer.flush(60) == 0
        yield broker


@pytest.fixture
def at(broker: Broker) -> tuple[str, ...]:
    return ("--bootstrap", broker.bootstrap)


@pytest.fixture
def consumer(broker: Broker) -> Iterator[ShareConsumer]:
    """A member that has accepted, rejected and released records, and holds the released one again."""
    consumer = ShareConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe(["jobs"])
    kinds = {REJECTED: AcknowledgeType.REJECT, RELEASED: AcknowledgeType.RELEASE}
    seen: list[int] = []

    def work() -> bool:
        for message in consumer.poll(0.5):
            assert message.error() is None
            offset = int(message.offset() or 0)
            if offset not in seen:
                consumer.acknowledge(message, kinds.get(offset, AcknowledgeType.ACCEPT))
            seen.append(offset)
        if len(set(seen)) == COUNT and seen.count(RELEASED) < 2:
            consumer.commit_sync(30)
        return seen.count(RELEASED) == 2

    eventually(work)
    yield consumer
    consumer.close()


def done(*words: str) -> Outcome:
    outcome = penstock(*words)
    assert outcome.code == 0, outcome.err
    return outcome


def metric(broker: Broker, name: str) -> float:
    with urlopen(f"{broker.settings['metrics.listener']}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return float(next(line.rsplit(" ", 1)[1] for line in lines if line.startswith(name)))


def test_a_group_in_use_is_shown(broker: Broker, consumer: ShareConsumer, at: tuple[str, ...]) -> None:
    (listed,) = done("queue", "list", "--format", "json", *at).json()
    assert (listed["group"], listed["state"], listed["members"], listed["partitions"]) == (GROUP, "Stable", 1, 1)
    eventually(lambda: done("queue", "describe", GROUP, "--format", "json", *at).json()[0]["start_offset"] == RELEASED)
    (described,) = done("queue", "describe", GROUP, "--format", "json", *at).json()
    assert (described["topic"], described["partition"], described["lag"]) == ("jobs", 0, 1)
    assert len(described["members"]) == 1
    assert share_group_names(Connection(broker.bootstrap)) == [GROUP]
    peeked = done("queue", "peek", GROUP, "--format", "json", *at)
    assert [json.loads(line)["value"] for line in peeked.out.splitlines()] == [f"job {RELEASED}"]
    (stuck,) = done("queue", "stuck", GROUP, "--format", "json", *at).json()
    assert (stuck["first_offset"], stuck["last_offset"], stuck["delivery_count"]) == (RELEASED, RELEASED, 2)
    assert stuck["state"] == "acquired" and stuck["member"] == described["members"][0]
    assert 0 < stuck["lock_left_ms"] <= 30_000


def test_tables_show_share_groups(broker: Broker, consumer: ShareConsumer) -> None:
    (group,) = query("SELECT * FROM ShareGroup", bootstrap=broker.bootstrap).dicts()
    assert (group["group_id"], group["state"], group["members"]) == (GROUP, "Stable", 1)
    (partition,) = query("SELECT * FROM SharePartition", bootstrap=broker.bootstrap).dicts()
    assert (partition["topic"], partition["partition"], partition["members"]) == ("jobs", 0, 1)
    held = "SELECT first_offset, delivery_count, member_id FROM InFlightRecord WHERE state = 'acquired'"
    ((first, deliveries, member),) = query(held, bootstrap=broker.bootstrap).rows
    assert (first, deliveries) == (RELEASED, 2) and member


def test_metrics_have_the_names_of_kafka(broker: Broker, consumer: ShareConsumer) -> None:
    acknowledged = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
    assert metric(broker, acknowledged + '{ackType="Accept"}') == COUNT - 2
    assert metric(broker, acknowledged + '{ackType="Reject"}') == 1
    assert metric(broker, "kafka_server_group_coordinator_metrics_share_group_count" + '{state="Stable"}') == 1
    assert metric(broker, "kafka_server_sharesessioncache_sharesessionscount ") == 1
    assert metric(broker, "kafka_server_share_coordinator_metrics_write_total ") >= 1
    unfinished = "penstock_share_partition_unfinished_records" + f'{{group="{GROUP}",topic="jobs",partition="0"}}'
    assert metric(broker, unfinished) == 1
    eventually(lambda: metric(broker, "penstock_share_dead_letters_total ") == 1)
    eventually(lambda: metric(broker, "penstock_share_dead_letters_waiting ") == 0)


def test_dead_letters_are_shown_sent_back_and_the_group_is_purged(
    broker: Broker, consumer: ShareConsumer, at: tuple[str, ...]
) -> None:
    eventually(lambda: metric(broker, "penstock_share_dead_letters_total ") == 1)
    listed = {row["topic"]: row for row in done("dlq", "list", "--format", "json", *at).json()}
    assert (listed["dlq.jobs"]["letters"], listed["dlq.jobs"]["source"]) == (1, None)
    shown = json.loads(done("dlq", "show", "dlq.jobs", "--format", "json", *at).out)
    assert (shown["death"]["topic"], shown["death"]["offset"], shown["death"]["group"]) == ("jobs", REJECTED, GROUP)
    assert "1 dead letter would be sent" in done("queue", "redrive", GROUP, *at).err
    assert "1 dead letter of dlq.jobs sent back" in done("queue", "redrive", GROUP, "--execute", *at).err
    assert "0 dead letters of dlq.jobs sent back" in done("queue", "redrive", GROUP, "--execute", *at).err
    consumed = done("consume", "jobs", "--from", str(COUNT), "--count", "1", "--format", "json", *at).json()
    found = consumed[0] if isinstance(consumed, list) else consumed
    assert (found["key"], found["value"]) == (str(REJECTED), f"job {REJECTED}")
    in_use = penstock("queue", "purge", GROUP, "--yes", *at)
    assert in_use.code == 1 and "Stop the consumers" in in_use.err
    consumer.close()
    eventually(lambda: done("queue", "list", "--format", "json", *at).json()[0]["state"] == "Empty")
    assert done("queue", "purge", GROUP, "--yes", *at).code == 0
    (described,) = done("queue", "describe", GROUP, "--format", "json", *at).json()
    assert described["start_offset"] == COUNT + 1
    assert done("queue", "peek", GROUP, "--format", "json", *at).out == ""


def test_an_unknown_group_is_reported(broker: Broker, at: tuple[str, ...]) -> None:
    outcome = penstock("queue", "describe", "nobody", *at)
    assert outcome.code == 1 and "Share group 'nobody' does not exist." in outcome.err
    assert "Run 'penstock queue list' to list the share groups." in outcome.err
