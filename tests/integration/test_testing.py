"""Tests of penstock.testing."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.model.errors import StartupError
from penstock.testing import Broker, BrokerProcess


def write(bootstrap: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce("orders", value, partition=0)
    assert producer.flush(60) == 0


def read(bootstrap: str) -> list[str]:
    """Read all of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        partition = TopicPartition("orders", 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=60)
        consumer.assign([partition])
        return [(message.value() or b"").decode() for message in consumer.consume(end, timeout=60)]
    finally:
        consumer.close()


def test_a_broker_on_a_thread_stores_and_returns_records() -> None:
    with Broker() as broker:
        folder = broker.data
        write(broker.bootstrap, "plums")
        assert read(broker.bootstrap) == ["plums"]
    assert not folder.exists()


def test_a_restart_keeps_the_address_and_the_records() -> None:
    with Broker() as broker:
        address = broker.bootstrap
        write(broker.bootstrap, "plums")
        broker.restart()
        assert broker.bootstrap == address
        assert read(broker.bootstrap) == ["plums"]


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_a_group_of_a_test_starts_without_delay_unless_a_setting_says_otherwise(
    kind: type[Broker] | type[BrokerProcess], tmp_path: Path
) -> None:
    name = "group.initial.rebalance.delay.ms"
    assert kind(data=tmp_path).settings[name] == "0"
    assert kind({name: "500"}, data=tmp_path).settings[name] == "500"


def test_a_given_directory_is_kept(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        write(broker.bootstrap, "plums")
    with Broker(data=tmp_path) as broker:
        assert read(broker.bootstrap) == ["plums"]


async def test_a_broker_runs_on_the_current_loop() -> None:
    import asyncio

    async with Broker() as broker:
        await asyncio.to_thread(write, broker.bootstrap, "plums")
        await broker.restart_here()
        assert await asyncio.to_thread(read, broker.bootstrap) == ["plums"]


def test_two_brokers_are_independent() -> None:
    with Broker() as one, Broker() as two:
        write(one.bootstrap, "plums")
        assert one.bootstrap != two.bootstrap
        assert "orders" not in AdminClient({"bootstrap.servers": two.bootstrap}).list_topics(timeout=60).topics


def test_a_bad_setting_is_rejected_and_leaves_no_thread_behind() -> None:
    import threading

    before = threading.active_count()
    with pytest.raises(StartupError, match=r"num\.partitions"), Broker({"num.partitions": "many"}):
        raise AssertionError("the broker must not start")
    assert threading.active_count() == before


def test_acknowledged_records_survive_a_kill() -> None:
    with BrokerProcess() as broker:
        write(broker.bootstrap, "plums")
        broker.kill()
        broker.start()
        assert read(broker.bootstrap) == ["plums"]
        assert broker.stop() == 0


class TestTheFixture:
    @pytest.fixture
    def penstock_settings(self) -> dict[str, str]:
        return {"num.partitions": "4"}

    def test_it_takes_settings_from_the_module(self, penstock_broker: Broker) -> None:
        write(penstock_broker.bootstrap, "plums")
        admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap})
        assert len(admin.list_topics(timeout=60).topics["orders"].partitions) == 4

    def test_it_is_fresh_for_each_test(self, penstock_broker: Broker) -> None:
        admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap})
        assert admin.list_topics(timeout=60).topics == {}
