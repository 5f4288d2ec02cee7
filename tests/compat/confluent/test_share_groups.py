"""Share groups: what is accepted, released or rejected, and how consumers share a partition."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.compat.confluent.conftest import Send
from tests.compat.conftest import MakeTopic
from tests.support.eventually import eventually

POLL_S = 0.5
_names = itertools.count(1)

MakeShareConsumer = Callable[..., ShareConsumer]


@pytest.fixture
def group(admin: AdminClient) -> str:
    """Return the name of a share group that begins with the first record."""
    name = f"share-{next(_names)}"
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=60)
    return name


@pytest.fixture
def make_share_consumer(bootstrap: str, group: str) -> Iterator[MakeShareConsumer]:
    opened: list[ShareConsumer] = []

    def make(topic: str, *, mode: str = "explicit") -> ShareConsumer:
        consumer = ShareConsumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode}
        )
        opened.append(consumer)
        consumer.subscribe([topic])
        return consumer

    yield make
    for consumer in opened:
        consumer.close()


def poll(consumer: ShareConsumer) -> list[Message]:
    """Return what one poll brings; errors of single fetches are repeated by the client."""
    return [message for message in consumer.poll(POLL_S) if message.error() is None]


def take(consumer: ShareConsumer, count: int) -> list[int]:
    """Poll until this many records have arrived."""
    taken: list[int] = []

    def is_enough() -> bool:
        taken.extend(numbers(poll(consumer)))
        return len(taken) >= count

    eventually(is_enough, seconds_max=120)
    return taken


def accept(consumer: ShareConsumer) -> list[Message]:
    """Accept what one poll brings, and return it."""
    messages = poll(consumer)
    for message in messages:
        consumer.acknowledge(message)
    if messages:
        commit(consumer)
    return messages


def numbers(messages: Sequence[Message]) -> list[int]:
    return [int(message.value() or b"") for message in messages]


def commit(consumer: ShareConsumer) -> None:
    outcomes = consumer.commit_sync(60)
    assert outcomes and set(outcomes.values()) == {None}


def test_consumers_share_the_records_of_one_partition(
    make_topic: MakeTopic, send: Send, make_share_consumer: MakeShareConsumer
) -> None:
    topic = make_topic()
    consumers = [make_share_consumer(topic), make_share_consumer(topic)]
    send(topic, [{"value": str(number).encode()} for number in range(200)])
    accepted: Counter[int] = Counter()

    def work() -> bool:
        for consumer in consumers:
            accepted.update(numbers(accept(consumer)))
        return len(accepted) == 200

    eventually(work, seconds_max=120)
    assert set(accepted.values()) == {1}, "each record has one holder"


def test_a_released_record_comes_back_and_a_rejected_one_does_not(
    make_topic: MakeTopic, send: Send, make_share_consumer: MakeShareConsumer
) -> None:
    topic = make_topic()
    send(topic, [{"value": str(number).encode()} for number in range(10)])
    consumer = make_share_consumer(topic)
    deliveries: dict[int, list[int]] = {}

    def work() -> bool:
        messages = poll(consumer)
        for message, number in zip(messages, numbers(messages), strict=True):
            seen = deliveries.setdefault(number, [])
            seen.append(message.delivery_count() or 0)
            kind = AcknowledgeType.ACCEPT
            if number == 3 and len(seen) < 3:
                kind = AcknowledgeType.RELEASE
            elif number == 4:
                kind = AcknowledgeType.REJECT
            consumer.acknowledge(message, kind)
        if messages:
            commit(consumer)
        return 10 in deliveries

    eventually(lambda: bool(work() or len(deliveries.get(3, ())) == 3), seconds_max=120)
    # A record after them shows that nothing else is delivered again.
    send(topic, [{"value": b"10"}])
    eventually(work, seconds_max=120)
    assert deliveries == {number: [1, 2, 3] if number == 3 else [1] for number in range(11)}


def test_what_a_consumer_holds_goes_to_another_when_it_closes(
    make_topic: MakeTopic, send: Send, make_share_consumer: MakeShareConsumer
) -> None:
    topic = make_topic()
    send(topic, [{"value": str(number).encode()} for number in range(5)])
    first = make_share_consumer(topic)
    held = take(first, 1)
    first.close()
    second = make_share_consumer(topic)
    taken: dict[int, int] = {}

    def work() -> bool:
        messages = accept(second)
        for message, number in zip(messages, numbers(messages), strict=True):
            taken[number] = message.delivery_count() or 0
        return len(taken) == 5

    eventually(work, seconds_max=120)
    assert all(taken[number] > 1 for number in held), "the broker counts the first delivery"


def test_the_next_poll_accepts_in_implicit_mode(
    make_topic: MakeTopic, send: Send, make_share_consumer: MakeShareConsumer
) -> None:
    topic = make_topic()
    send(topic, [{"value": str(number).encode()} for number in range(20)])
    first = make_share_consumer(topic, mode="implicit")
    assert sorted(take(first, 20)) == list(range(20))
    commit(first)
    first.close()
    send(topic, [{"value": b"20"}])
    second = make_share_consumer(topic)
    assert take(second, 1) == [20]
