"""Tests of consumer groups with librdkafka's consumers, in both protocols, across restarts and kills."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.testing import Broker
from penstock.testing.process import BrokerProcess
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import request_head
from penstock.wire.schema import shape_of
from tests.support.sharing import Sharing

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "10",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
}
SECONDS_MAX = 60.0
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])
_numbers = itertools.count(1)


def with_settings() -> Broker:
    return Broker(SETTINGS)


@pytest.fixture
def broker(sharing: Sharing) -> Broker:
    return sharing.of(with_settings)


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


def make_topic(bootstrap: str, partitions: int = 4, *, records: int = 0) -> str:
    name = f"topic-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)
    produce(bootstrap, name, records, partitions)
    return name


def produce(bootstrap: str, topic: str, count: int, partitions: int = 4) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for number in range(count):
        producer.produce(topic, f"value-{number}", partition=number % partitions)
    assert producer.flush(60) == 0


def new_group() -> str:
    return f"group-{next(_numbers)}"


@contextmanager
def consumers(bootstrap: str, group: str, count: int = 1, **settings: Any) -> Iterator[list[Consumer]]:
    """Provide consumers of a group, not subscribed yet; they are closed at the end."""
    wanted: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{name if name == "on_commit" else name.replace("_", "."): value for name, value in settings.items()},
    }
    if wanted.get("group.protocol", "classic") == "classic":
        wanted |= {"session.timeout.ms": 3000, "heartbeat.interval.ms": 200}
    made = [Consumer(wanted) for _ in range(count)]
    try:
        yield made
    finally:
        for consumer in made:
            consumer.close()


def poll_until(made: list[Consumer], holds: Callable[[], bool], *, got: list[Any] | None = None) -> None:
    """Poll all of them until a condition holds; records received meanwhile go to `got`."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in made]
        for consumer in made:
            message = consumer.poll(0.02)
            if message is None:
                continue
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            if error is None and got is not None:
                got.append(message)


def read(made: list[Consumer], count: int) -> list[Any]:
    """Poll all of them until this many records have arrived."""
    got: list[Any] = []
    poll_until(made, lambda: len(got) >= count, got=got)
    return got


def owned(consumer: Consumer) -> set[tuple[str, int]]:
    return {(place.topic, place.partition) for place in consumer.assignment()}


def is_shared(made: list[Consumer], partition_count: int, *, each: int) -> bool:
    parts = [owned(consumer) for consumer in made]
    return all(len(part) == each for part in parts) and len(set().union(*parts)) == partition_count


def committed(bootstrap: str, group: str, topic: str, partitions: int = 4) -> list[int]:
    with consumers(bootstrap, group) as (consumer,):
        found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=60)
        assert not any(place.error for place in found), found
        return [place.offset for place in found]


# -- membership --------------------------------------------------------------------------------


@both_protocols
def test_a_group_reads_everything_and_continues_at_its_committed_offset(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap, records=100), new_group()
    with consumers(bootstrap, group, group_protocol=protocol) as (consumer,):
        consumer.subscribe([topic])
        got = read([consumer], 100)
        assert Counter(message.value() for message in got) == Counter(b"value-%d" % n for n in range(100))
        assert {place.error for place in consumer.commit(asynchronous=False)} == {None}
    produce(bootstrap, topic, 20)
    with consumers(bootstrap, group, group_protocol=protocol) as (consumer,):
        consumer.subscribe([topic])
        assert sorted(message.offset() for message in read([consumer], 20)) == sorted([*range(25, 30)] * 4)


@both_protocols
def test_two_consumers_share_and_one_takes_over_when_the_other_leaves(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    with consumers(bootstrap, group, group_protocol=protocol) as (first,):
        first.subscribe([topic])
        poll_until([first], lambda: len(owned(first)) == 4)
        with consumers(bootstrap, group, group_protocol=protocol) as (second,):
            second.subscribe([topic])
            poll_until([first, second], lambda: is_shared([first, second], 4, each=2))
        poll_until([first], lambda: len(owned(first)) == 4)
        assert owned(first) == {(topic, index) for index in range(4)}


@both_protocols
def test_a_consumer_that_dies_is_removed_after_its_session_timeout(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    with (
        consumers(bootstrap, group, group_protocol=protocol) as (first,),
        consumers(bootstrap, group, group_protocol=protocol, group_instance_id="dies") as (second,),
    ):
        for consumer in (first, second):
            consumer.subscribe([topic])
        poll_until([first, second], lambda: is_shared([first, second], 4, each=2))
        # A static member does not leave the group when it closes.
        second.close()
        poll_until([first], lambda: len(owned(first)) == 4)
        assert owned(first) == {(topic, index) for index in range(4)}


@both_protocols
def test_a_new_partition_is_assigned_to_a_member(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap, 2), new_group()
    with consumers(bootstrap, group, group_protocol=protocol, **{"topic.metadata.refresh.interval.ms": 300}) as (one,):
        one.subscribe([topic])
        poll_until([one], lambda: len(owned(one)) == 2)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(60)
        poll_until([one], lambda: len(owned(one)) == 5)
        assert owned(one) == {(topic, index) for index in range(5)}


# The coordinator resolves a pattern again every ten seconds at most, as in Kafka.
@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def test_a_pattern_finds_topics_that_are_created_later(bootstrap: str, protocol: str) -> None:
    prefix, group = f"pattern-{next(_numbers)}", new_group()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(f"{prefix}.a", 1)])[f"{prefix}.a"].result(60)
    with consumers(bootstrap, group, group_protocol=protocol, **{"topic.metadata.refresh.interval.ms": 300}) as (one,):
        one.subscribe([f"^{prefix}\\..*"])
        poll_until([one], lambda: owned(one) == {(f"{prefix}.a", 0)})
        admin.create_topics([NewTopic(f"{prefix}.b", 1)])[f"{prefix}.b"].result(60)
        poll_until([one], lambda: len(owned(one)) == 2)
        assert owned(one) == {(f"{prefix}.a", 0), (f"{prefix}.b", 0)}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignor_of_the_client_gives_each_partition_one_owner(bootstrap: str, strategy: str) -> None:
    topic, group = make_topic(bootstrap, 6, records=60), new_group()
    with consumers(bootstrap, group, 3, partition_assignment_strategy=strategy) as made:
        for consumer in made:
            consumer.subscribe([topic])
        poll_until(made, lambda: is_shared(made, 6, each=2))
        assert set().union(*map(owned, made)) == {(topic, index) for index in range(6)}


def test_a_cooperative_member_keeps_partitions_that_are_not_revoked(bootstrap: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    revoked: list[tuple[str, int]] = []
    with consumers(bootstrap, group, 2, partition_assignment_strategy="cooperative-sticky") as (first, second):
        first.subscribe(
            [topic], on_revoke=lambda _, places: revoked.extend((place.topic, place.partition) for place in places)
        )
        poll_until([first], lambda: len(owned(first)) == 4)
        second.subscribe([topic])
        poll_until([first, second], lambda: is_shared([first, second], 4, each=2))
        assert set(revoked) == owned(second)


@both_protocols
def test_a_static_member_rejoins_without_a_rebalance(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    lost: list[Any] = []
    with (
        consumers(bootstrap, group, group_protocol=protocol) as (other,),
        consumers(bootstrap, group, group_protocol=protocol, group_instance_id="one") as (static,),
    ):
        other.subscribe([topic], on_revoke=lambda _, places: lost.append(places))
        static.subscribe([topic])
        poll_until([other, static], lambda: is_shared([other, static], 4, each=2))
        before, revocations = owned(static), len(lost)
        static.close()
        with consumers(bootstrap, group, group_protocol=protocol, group_instance_id="one") as (again,):
            again.subscribe([topic])
            poll_until([other, again], lambda: len(owned(again)) == 2)
            assert owned(again) == before
            assert len(lost) == revocations


def test_the_second_to_use_an_instance_id_fences_the_first(bootstrap: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    with (
        consumers(bootstrap, group, group_instance_id="same") as (first,),
        consumers(bootstrap, group, group_instance_id="same") as (second,),
    ):
        first.subscribe([topic])
        poll_until([first], lambda: len(owned(first)) == 4)
        second.subscribe([topic])
        poll_until([second], lambda: len(owned(second)) == 4)
        with pytest.raises(KafkaException) as refusal:
            first.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError.FENCED_INSTANCE_ID


def test_a_client_that_disconnects_while_joining_is_removed_after_its_session_timeout(bootstrap: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    host, _, port = bootstrap.rpartition(":")
    with consumers(bootstrap, group) as (consumer,):
        consumer.subscribe([topic])
        poll_until([consumer], lambda: len(owned(consumer)) == 4)
        before = len(owned(consumer))
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(join_request(group, topic))
        # The rebalance that it started ends with an assignment for the absent member, then with all for the other.
        poll_until([consumer], lambda: len(owned(consumer)) < before)
        poll_until([consumer], lambda: len(owned(consumer)) == 4)
        assert owned(consumer) == {(topic, index) for index in range(4)}


def join_request(group: str, topic: str) -> bytes:
    """Build a JoinGroup of version 3, which does not require a second request with the member id."""
    subscription = struct.pack(f">hih{len(topic)}si", 0, 1, len(topic), topic.encode(), -1)
    layout = codec.request_class(ApiKey.JOIN_GROUP, 3)
    protocol = shape_of(layout).find("protocols")
    assert protocol is not None and protocol.entity is not None
    request = layout(
        group_id=group,
        session_timeout=timedelta(milliseconds=1500),
        rebalance_timeout=timedelta(seconds=10),
        member_id="",
        protocol_type="consumer",
        protocols=(protocol.entity(name="range", metadata=subscription),),
    )
    body = codec.write_request(ApiKey.JOIN_GROUP, 3, request)
    return request_head(ApiKey.JOIN_GROUP, 3, 1, "hangs-up", len(body)) + body


def test_a_group_moves_to_the_consumer_protocol_and_back_while_it_reads(bootstrap: str) -> None:
    topic, group = make_topic(bootstrap, records=40), new_group()
    with consumers(bootstrap, group) as (classic,):
        classic.subscribe([topic])
        read([classic], 40)
        classic.commit(asynchronous=False)
        with consumers(bootstrap, group, group_protocol="consumer") as (modern,):
            modern.subscribe([topic])
            poll_until([classic, modern], lambda: is_shared([classic, modern], 4, each=2))
            produce(bootstrap, topic, 40)
            assert sorted(message.offset() for message in read([classic, modern], 40)) == sorted([*range(10, 20)] * 4)
        poll_until([classic], lambda: len(owned(classic)) == 4)


# -- offsets -----------------------------------------------------------------------------------


@both_protocols
def test_synchronous_asynchronous_and_stored_commits_are_all_kept(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap, records=40), new_group()
    answers: list[Any] = []
    with consumers(
        bootstrap,
        group,
        group_protocol=protocol,
        enable_auto_offset_store=False,
        on_commit=lambda error, places: answers.append((error, places)),
    ) as (consumer,):
        consumer.subscribe([topic])
        got = read([consumer], 40)
        consumer.commit(offsets=[TopicPartition(topic, 0, 3, metadata="a note")], asynchronous=False)
        consumer.commit(message=next(message for message in got if message.partition() == 1), asynchronous=True)
        poll_until([consumer], lambda: len(answers) == 1)
        last = next(message for message in reversed(got) if message.partition() == 2)
        consumer.store_offsets(message=last)
        consumer.commit(asynchronous=False)
        found = consumer.committed([TopicPartition(topic, index) for index in range(4)], timeout=60)
    assert [place.offset for place in found][::2] == [3, 10]
    assert found[0].metadata == "a note"
    assert found[3].offset == -1001
    assert all(error is None for error, _ in answers)


@both_protocols
def test_auto_commit_keeps_up_and_closing_commits_the_rest(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap, records=40), new_group()
    with consumers(bootstrap, group, group_protocol=protocol, enable_auto_commit=True, auto_commit_interval_ms=100) as (
        consumer,
    ):
        consumer.subscribe([topic])
        read([consumer], 40)
    assert committed(bootstrap, group, topic) == [10] * 4


def test_a_consumer_that_never_subscribed_can_commit_until_the_group_has_members(bootstrap: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    with consumers(bootstrap, group, 2) as (outsider, member):
        outsider.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        assert committed(bootstrap, group, topic) == [7, -1001, -1001, -1001]
        member.subscribe([topic])
        poll_until([member], lambda: len(owned(member)) == 4)
        with pytest.raises(KafkaException) as refusal:
            outsider.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
        assert committed(bootstrap, group, topic)[0] == 7


def test_invalid_commits_are_rejected_with_an_error_code(bootstrap: str) -> None:
    topic, group = make_topic(bootstrap), new_group()
    with consumers(bootstrap, group) as (consumer,):
        for place, code in (
            (TopicPartition("no-such-topic", 0, 1), KafkaError.UNKNOWN_TOPIC_OR_PART),
            (TopicPartition(topic, 99, 1), KafkaError.UNKNOWN_TOPIC_OR_PART),
            (TopicPartition(topic, 0, 1, metadata="x" * 5000), KafkaError.OFFSET_METADATA_TOO_LARGE),
        ):
            with pytest.raises(KafkaException) as refusal:
                consumer.commit(offsets=[place, TopicPartition(topic, 1, 5)], asynchronous=False)
            assert refusal.value.args[0].code() == code
    assert committed(bootstrap, group, topic) == [-1001, 5, -1001, -1001]


def test_the_offsets_of_a_deleted_topic_are_removed_with_it(bootstrap: str) -> None:
    topic, other, group = make_topic(bootstrap), make_topic(bootstrap), new_group()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumers(bootstrap, group) as (consumer,):
        consumer.commit(offsets=[TopicPartition(topic, 0, 7), TopicPartition(other, 0, 8)], asynchronous=False)
    admin.delete_topics([topic])[topic].result(60)
    admin.create_topics([NewTopic(topic, 4)])[topic].result(60)
    assert committed(bootstrap, group, topic) == [-1001] * 4
    assert committed(bootstrap, group, other)[0] == 8


# -- administration ----------------------------------------------------------------------------


@both_protocols
def test_an_administrator_lists_resets_and_deletes_groups(bootstrap: str, protocol: str) -> None:
    topic, group = make_topic(bootstrap, records=40), new_group()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumers(bootstrap, group, group_protocol=protocol, client_id="the-client") as (consumer,):
        consumer.subscribe([topic])
        read([consumer], 40)
        consumer.commit(asynchronous=False)
        listed = {one.group_id: one for one in admin.list_consumer_groups(request_timeout=60).result().valid}
        assert (listed[group].state.name, listed[group].type.name) == ("STABLE", protocol.upper())
        described = admin.describe_consumer_groups([group], request_timeout=60)[group].result()
        (member,) = described.members
        assert (described.state.name, member.client_id, member.host) == ("STABLE", "the-client", "/127.0.0.1")
        assert {place.partition for place in member.assignment.topic_partitions} == {0, 1, 2, 3}
        with pytest.raises(KafkaException) as refusal:
            admin.delete_consumer_groups([group], request_timeout=60)[group].result()
        assert refusal.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 2, 4)])
    changed = admin.alter_consumer_group_offsets([wanted], request_timeout=60)[group].result()
    assert changed.topic_partitions[0].error is None
    shown = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=60)[group].result()
    assert {place.partition: place.offset for place in shown.topic_partitions} == {0: 10, 1: 10, 2: 4, 3: 10}
    admin.delete_consumer_groups([group], request_timeout=60)[group].result()
    assert group not in {one.group_id for one in admin.list_consumer_groups(request_timeout=60).result().valid}
    assert committed(bootstrap, group, topic) == [-1001] * 4


# -- restarts ----------------------------------------------------------------------------------


@both_protocols
def test_members_continue_after_a_restart_and_keep_their_commits(tmp_path: Path, protocol: str) -> None:
    with Broker(SETTINGS, data=tmp_path) as broker:
        topic, group = make_topic(broker.bootstrap, records=40), new_group()
        with consumers(broker.bootstrap, group, 2, group_protocol=protocol) as made:
            for consumer in made:
                consumer.subscribe([topic])
            poll_until(made, lambda: is_shared(made, 4, each=2))
            for consumer in made:
                consumer.commit(offsets=[TopicPartition(*place, 10) for place in owned(consumer)], asynchronous=False)
            broker.restart()
            assert committed(broker.bootstrap, group, topic) == [10] * 4
            produce(broker.bootstrap, topic, 40)
            deadline = time.monotonic() + SECONDS_MAX
            seen: set[tuple[Any, Any]] = set()
            while not seen >= {(index, 19) for index in range(4)}:
                assert time.monotonic() < deadline, seen
                for consumer in made:
                    message = consumer.poll(0.02)
                    if message is not None and not message.error():
                        seen.add((message.partition(), message.offset()))
            poll_until(made, lambda: is_shared(made, 4, each=2))


@pytest.mark.slow
def test_no_committed_offset_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    broker = BrokerProcess(SETTINGS, data=tmp_path / "data")
    broker.start()
    try:
        topic, group = make_topic(broker.bootstrap), new_group()
        promised = 0
        for round_number in range(4):
            with consumers(broker.bootstrap, group, **{"reconnect.backoff.max.ms": 200}) as (consumer,):
                for _ in range(200):
                    promised += 1
                    place = TopicPartition(topic, round_number, promised)
                    (answer,) = consumer.commit(offsets=[place], asynchronous=False)
                    assert answer.error is None
                broker.kill()
                broker.start()
            assert committed(broker.bootstrap, group, topic)[round_number] == promised
    finally:
        broker.stop()
