"""Tests of transactions: atomic, invisible if aborted, never hanging; with librdkafka and with single requests."""

from __future__ import annotations

import itertools
import random
import time
from functools import partial

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from penstock.testing import Broker
from penstock.testing.process import BrokerProcess
from tests.integration.conftest import GROUP_SETTINGS
from tests.support.eventually import eventually
from tests.support.sharing import Sharing
from tests.support.transaction_wire import Producer as WireProducer
from tests.support.transaction_wire import Wire, end_request, produce_request

SETTINGS = {
    **GROUP_SETTINGS,
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
SECONDS_MAX = 60.0
FETCH_WAIT_S = 60
PARTITIONS = 3
_numbers = itertools.count(1)


def with_settings() -> Broker:
    return Broker(SETTINGS)


@pytest.fixture
def broker(sharing: Sharing) -> Broker:
    return sharing.of(with_settings)


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


def make_topic(bootstrap: str, partitions: int = PARTITIONS) -> str:
    name = f"topic-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)
    return name


def new_producer(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 1,
        }
    )
    producer.init_transactions(SECONDS_MAX)
    return producer


def read(bootstrap: str, topic: str, isolation: str = "read_committed", partitions: int = PARTITIONS) -> list[str]:
    """Return all records that a reader sees up to its end offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    got: list[str] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + SECONDS_MAX
    while len(at_end) < partitions:
        assert time.monotonic() < deadline, f"the end was not reached: {at_end}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        index = message.partition()
        assert index is not None
        if message.error():
            at_end.add(index)
        else:
            got.append((message.value() or b"").decode())
    consumer.close()
    return got


def ends(bootstrap: str, topic: str, isolation: IsolationLevel, partitions: int = PARTITIONS) -> list[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    answers = admin.list_offsets(asked, isolation_level=isolation)
    return [answers[place].result(60).offset for place in asked]


def is_added(wire: Wire, producer: WireProducer, topic: str, partition: int = 0) -> bool:
    return wire.add(producer, topic, partition) == [0]


def is_at_rest(bootstrap: str, topic: str) -> bool:
    """Return whether no transaction is open: the last stable offset is the high watermark."""
    return ends(bootstrap, topic, IsolationLevel.READ_COMMITTED) == ends(
        bootstrap, topic, IsolationLevel.READ_UNCOMMITTED
    )


# -- librdkafka: the old protocol ------------------------------------------------------------------


def test_read_committed_consumers_see_whole_transactions_and_no_aborted_ones(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    producer = new_producer(bootstrap, topic)
    for number in range(6):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, f"{number}/{index}", partition=index)
        if number % 2:
            producer.flush(SECONDS_MAX)
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
    eventually(lambda: is_at_rest(bootstrap, topic))
    assert sorted(read(bootstrap, topic)) == [f"{number}/{index}" for number in (0, 2, 4) for index in range(3)]
    assert len(read(bootstrap, topic, "read_uncommitted")) == 18


def test_an_open_transaction_holds_back_later_records_and_its_end_wakes_readers(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    producer = new_producer(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush(SECONDS_MAX)
    ordinary = Producer({"bootstrap.servers": bootstrap})
    ordinary.produce(topic, "behind", partition=0)
    ordinary.flush(SECONDS_MAX)
    assert read(bootstrap, topic) == []
    assert read(bootstrap, topic, "read_uncommitted") == ["open", "behind"]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "waits",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 4 * FETCH_WAIT_S * 1000,
            "socket.timeout.ms": 5 * FETCH_WAIT_S * 1000,
            "fetch.min.bytes": 1,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.5) is None
    producer.commit_transaction(SECONDS_MAX)
    # Without the wake-up the waiting fetch would be answered much later.
    message = consumer.poll(FETCH_WAIT_S)
    assert message is not None and message.value() == b"open"
    consumer.close()


def test_a_new_producer_fences_the_previous_one(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    zombie = new_producer(bootstrap, topic)
    zombie.begin_transaction()
    zombie.produce(topic, "zombie", partition=0)
    zombie.flush(SECONDS_MAX)
    newer = new_producer(bootstrap, topic)
    newer.begin_transaction()
    newer.produce(topic, "newer", partition=0)
    newer.commit_transaction(SECONDS_MAX)
    zombie.produce(topic, "zombie again", partition=0)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(SECONDS_MAX)
    assert refused.value.args[0].fatal()
    eventually(lambda: is_at_rest(bootstrap, topic))
    assert read(bootstrap, topic) == ["newer"]


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    producer = new_producer(bootstrap, topic, timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce(topic, "slow", partition=0)
    producer.flush(SECONDS_MAX)
    assert not is_at_rest(bootstrap, topic)
    eventually(lambda: is_at_rest(bootstrap, topic))
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS_MAX)
    assert read(bootstrap, topic) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_records_are_copied_to_another_topic_exactly_once(bootstrap: str, protocol: str) -> None:
    source, target = make_topic(bootstrap), make_topic(bootstrap)
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(90):
        plain.produce(source, str(number), partition=number % PARTITIONS)
    assert plain.flush(SECONDS_MAX) == 0
    for life in itertools.count(1):
        if _transform(bootstrap, source, target, protocol, commits=2 * life):
            break
    assert life > 2, "the work was not interrupted often enough"
    assert sorted(map(int, read(bootstrap, target))) == list(range(90))


def _transform(bootstrap: str, source: str, target: str, protocol: str, *, commits: int) -> bool:
    """Run a worker that stops in the middle of a transaction; return True if nothing was left to do."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"from-{source}",
            "group.protocol": protocol,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # A request for end offsets is answered after the fetch that waits on the same connection.
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.subscribe([source])
    producer = new_producer(bootstrap, f"to-{target}")
    try:
        while not _is_read(consumer, source):
            messages = consumer.consume(7, 0.2)
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value(), partition=message.partition() or 0)
            if not commits:
                producer.flush(SECONDS_MAX)
                return False
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS_MAX
            )
            producer.commit_transaction(SECONDS_MAX)
            commits -= 1
        return True
    finally:
        consumer.close()


def _is_read(consumer: Consumer, topic: str) -> bool:
    """Return whether the group has committed everything."""
    places = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], SECONDS_MAX)
    return all(place.offset == consumer.get_watermark_offsets(place, SECONDS_MAX)[1] for place in places)


def test_offsets_of_an_aborted_transaction_are_not_committed(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    group = f"group-of-{topic}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0)])
    producer = new_producer(bootstrap, topic)
    for is_commit, offset in ((True, 5), (False, 9)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), SECONDS_MAX
        )
        if is_commit:
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.abort_transaction(SECONDS_MAX)
        assert [each.offset for each in consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX)] == [5]
    consumer.close()


# -- single requests -------------------------------------------------------------------------------


def test_a_write_of_version_two_adds_its_partition_and_its_end_raises_the_epoch(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    with Wire(bootstrap) as wire:
        producer = wire.begin(topic)
        for number in range(4):
            assert wire.produce(producer, topic, 0, f"a{number}") == 0
            assert wire.produce(producer, topic, 1, f"b{number}") == 0
            assert wire.produce(producer, topic, 1, f"c{number}", sequence=1) == 0
            reply = wire.end(producer, commit=number % 2 == 0)
            assert (reply.error_code, reply.producer_epoch) == (0, producer.epoch + 1)
            again = wire.end(producer, commit=number % 2 == 0)
            # Acknowledged again, or told to retry while the markers are being written; never done twice.
            assert again.error_code == 51 or (again.error_code, again.producer_epoch) == (0, producer.epoch + 1)
            late = wire.produce(producer, topic, 0, "late", sequence=1)
            assert late in (47, 51)
            producer = producer._replace(epoch=reply.producer_epoch)
    eventually(lambda: is_at_rest(bootstrap, topic))
    assert sorted(read(bootstrap, topic)) == ["a0", "a2", "b0", "b2", "c0", "c2"]


def test_later_requests_of_a_connection_do_not_overtake_the_first_write_of_a_transaction(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    with Wire(bootstrap) as wire:
        producer = wire.begin(topic)
        for _ in range(5):
            # Until the markers of the last transaction are written, requests are answered CONCURRENT_TRANSACTIONS.
            eventually(partial(is_added, wire, producer, topic, 2))
            requests = [
                produce_request(producer, topic, index, [f"{index}/{sequence}"], sequence=sequence)
                for sequence in range(6)
                for index in (0, 1)
            ]
            wire.send(*requests, end_request(producer, commit=True))
            answers = [wire.produced() for _ in requests]
            assert [code for code, _ in answers] == [0] * len(requests)
            for index in (0, 1):
                offsets = [offset for _, offset in answers[index::2]]
                assert offsets == list(range(offsets[0], offsets[0] + 6))
            reply = wire.receive(26, 5)
            assert reply.error_code == 0
            producer = producer._replace(epoch=reply.producer_epoch)
    eventually(lambda: is_at_rest(bootstrap, topic))
    assert len(read(bootstrap, topic)) == 60


@pytest.mark.parametrize(("version", "code"), [(3, 48), (10, 48), (11, 120)])
def test_an_older_client_must_add_its_partition_before_it_writes(bootstrap: str, version: int, code: int) -> None:
    topic = make_topic(bootstrap)
    with Wire(bootstrap) as wire:
        producer = wire.begin(topic)
        assert wire.produce(producer, topic, 0, "outside", version=version) == code
        assert wire.add(producer, topic, 0, version=0 if version == 3 else 3) == [0]
        assert wire.produce(producer, topic, 0, "inside", version=version) == 0
        assert wire.produce(producer, topic, 1, "other", version=version) == code
        assert wire.end(producer, commit=True, version=4).error_code == 0
        eventually(lambda: is_at_rest(bootstrap, topic))
        # The transaction is over: a late write must not open it again.
        assert wire.produce(producer, topic, 0, "late", sequence=1, version=version) == code
    assert read(bootstrap, topic) == ["inside"]


def test_each_error_has_its_code(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    with Wire(bootstrap) as wire:
        producer = wire.begin(topic)
        older = producer._replace(epoch=producer.epoch - 1)
        stranger = producer._replace(producer_id=producer.producer_id + 1_000_000)
        unknown = producer._replace(transactional_id=f"{topic}-unknown")
        assert wire.produce(older, topic, 0, "x") == 47
        assert wire.produce(stranger, topic, 0, "x") == 49
        assert wire.produce(unknown, topic, 0, "x") == 49
        wire.send(produce_request(producer, topic, 0, ["x"], names_id=False))
        assert wire.produced()[0] == 53
        assert [wire.end(each, commit=True).error_code for each in (older, stranger, unknown)] == [90, 49, 49]
        assert wire.end(older, commit=True, version=1).error_code == 47
        assert wire.end(producer, commit=True).error_code == 48
        assert wire.end(producer, commit=False, version=4).error_code == 48
        assert wire.add(producer, topic, 0, 99) == [55, 3]
        assert wire.add(older, topic, 0) == [90]
        assert wire.add(older, topic, 0, version=1) == [47]
        for timeout_ms in (0, -1, 900_001):
            assert wire.init(topic, timeout_ms=timeout_ms).error_code == 50
        assert wire.init("", timeout_ms=1000).error_code == 42
        # During a transaction its producer cannot write outside of it.
        assert wire.produce(producer, topic, 0, "in") == 0
        wire.send(produce_request(producer, topic, 0, ["out"], sequence=1, is_transactional=False))
        assert wire.produced()[0] == 48
        assert wire.end(producer, commit=True).error_code == 0
    eventually(lambda: is_at_rest(bootstrap, topic))
    assert read(bootstrap, topic) == ["in"]


def test_a_deleted_topic_does_not_prevent_the_end_of_its_transaction(bootstrap: str) -> None:
    topic, other = make_topic(bootstrap), make_topic(bootstrap)
    with Wire(bootstrap) as wire:
        producer = wire.begin(topic)
        assert wire.produce(producer, topic, 0, "gone") == 0
        assert wire.produce(producer, other, 0, "kept") == 0
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics([topic])[topic].result(60)
        assert wire.end(producer, commit=True).error_code == 0
        wire.begin(topic)
    assert read(bootstrap, other) == ["kept"]


@pytest.mark.parametrize("level", [0, 1])
def test_a_cluster_below_transaction_version_two_keeps_its_epochs(level: int) -> None:
    with Broker(SETTINGS) as broker, Wire(broker.bootstrap) as wire:
        assert wire.finalise("transaction.version", level) == 0
        topic = make_topic(broker.bootstrap)
        for _ in range(2):
            producer = wire.begin(topic)
            for number in range(2):
                # EndTxn is answered before the markers are written: until then the next request gets
                # CONCURRENT_TRANSACTIONS.
                eventually(partial(is_added, wire, producer, topic))
                assert wire.produce(producer, topic, 0, str(number), sequence=number, version=11) == 0
                assert wire.end(producer, commit=number == 0, version=4).error_code == 0
            broker.restart()
            wire.reconnect()
        eventually(lambda: is_at_rest(broker.bootstrap, topic))
        assert read(broker.bootstrap, topic) == ["0", "0"]


# -- restarts and kills ----------------------------------------------------------------------------


def test_a_transaction_continues_after_a_clean_restart(broker: Broker) -> None:
    bootstrap = broker.bootstrap
    topic = make_topic(bootstrap)
    producer = new_producer(bootstrap, topic)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(topic, f"before {number}", partition=0)
        producer.flush(SECONDS_MAX)
        broker.restart()
        assert read(bootstrap, topic) == [
            f"{word} {earlier}" for earlier in range(number) for word in ("before", "after")
        ]
        producer.produce(topic, f"after {number}", partition=0)
        producer.commit_transaction(SECONDS_MAX)
        broker.restart()
        eventually(lambda: is_at_rest(bootstrap, topic))
    assert len(read(bootstrap, topic)) == 6


@pytest.mark.slow
def test_after_a_kill_in_any_state_the_outcome_matches_the_decision() -> None:
    """Kill at a random moment around each step; a transaction is in all partitions or in none."""
    chance = random.Random(7)
    decided: dict[str, bool | None] = {}
    with BrokerProcess(SETTINGS) as process:
        topic = make_topic(process.bootstrap)
        for number in range(12):
            name = f"t{number}"
            with Wire(process.bootstrap) as wire:
                producer = wire.begin(f"id-{number % 3}", timeout_ms=2_000)
                for index in range(PARTITIONS):
                    assert wire.produce(producer, topic, index, name) == 0
                is_commit = number % 4 != 3
                if number % 3 == 0:
                    # It is unknown whether this is before or after the decision, or between two markers.
                    wire.send(end_request(producer, commit=is_commit))
                    time.sleep(chance.random() * 0.01)
                    decided[name] = None
                elif number % 3 == 1:
                    assert wire.end(producer, commit=is_commit).error_code == 0
                    decided[name] = is_commit
                else:
                    decided[name] = False
                process.kill()
            process.start()
        eventually(lambda: is_at_rest(process.bootstrap, topic))
        seen = read(process.bootstrap, topic)
        log = process.log_path.read_text()
    assert "Traceback" not in log, log
    for name, outcome in decided.items():
        count = seen.count(name)
        assert count in (0, PARTITIONS), f"{name} is torn: {count} of {PARTITIONS}"
        assert outcome is None or (count == PARTITIONS) == outcome, f"{name} had another outcome"
