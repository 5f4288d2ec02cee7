"""Tests that a dead-letter topic accepts the records of every topic that a pipeline reads."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.topic_limits import describe_limits
from penstock_spark.pipelines.dead_letter_topics import HEADERS_SIZE_MAX, prepare

LIMIT = 3_000_000


@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize("subscription", ["{}", "{}.*"], ids=["by name", "by pattern"])
def test_a_dead_letter_topic_is_as_wide_as_the_source(penstock_broker: Broker, exists: bool, subscription: str) -> None:
    source = f"wide-{exists}-{len(subscription)}"
    letters = f"{source}.dlq"
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap})
    made = [NewTopic(source, 1, 1, config={"max.message.bytes": str(LIMIT)})]
    made += [NewTopic(letters, 1, 1)] if exists else []
    for future in admin.create_topics(made).values():
        future.result(60)
    with Cluster(penstock_broker.bootstrap) as cluster:
        prepare(cluster, {letters}, [subscription.format(source)])
        prepare(cluster, {letters}, [subscription.format(source)])
        assert describe_limits(cluster, [letters, "no-such-topic"]) == {letters: LIMIT + HEADERS_SIZE_MAX}
    producer = Producer({"bootstrap.servers": penstock_broker.bootstrap, "message.max.bytes": 10_000_000})
    errors: list[object] = []
    producer.produce(letters, bytes(LIMIT), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]
