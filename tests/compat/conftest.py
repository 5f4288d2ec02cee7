"""Fixtures: the broker under test, and topics on it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.compat import churn
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually
from tests.support.java_tools import JavaMissing
from tests.support.sharing import Sharing

MakeTopic = Callable[..., str]


@dataclass(frozen=True, slots=True)
class BrokerUnderTest:
    """The broker's address, and its data directory if known."""

    bootstrap: str
    data: Path | None
    settles_later: bool
    """Whether an acknowledged change may become visible late, as in Apache Kafka; not so in Penstock."""


@pytest.fixture(scope="session")
def broker_under_test() -> Iterator[BrokerUnderTest]:
    elsewhere = os.environ.get("PENSTOCK_TEST_BOOTSTRAP")
    if elsewhere == "apache":
        try:
            peer = ApacheKafka()
        except JavaMissing as reason:
            pytest.skip(str(reason))
        with peer:
            yield BrokerUnderTest(peer.bootstrap, peer.data, True)
    elif elsewhere:
        yield BrokerUnderTest(elsewhere, None, True)
    else:
        from penstock.testing import Broker

        with Broker() as broker:
            yield BrokerUnderTest(broker.bootstrap, broker.data, False)


@pytest.fixture(scope="session")
def bootstrap(broker_under_test: BrokerUnderTest) -> str:
    return broker_under_test.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture(scope="session")
def make_topic(admin: AdminClient, broker_under_test: BrokerUnderTest) -> MakeTopic:
    """Create a topic with a new name: `make_topic(partitions=2, config={"retention.ms": "1000"})`."""
    numbers = itertools.count(1)

    def make(*, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"compat-{os.getpid()}-{next(numbers)}"
        # Many tests write old timestamps, which the broker could delete at any time.
        settings = {"retention.ms": "-1", **(config or {})}
        created = admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
        created[name].result(timeout=60)
        if broker_under_test.settles_later:
            eventually(lambda: name in admin.list_topics(timeout=60).topics)
        return name

    return make


def with_short_sessions() -> BrokerProcess:
    return BrokerProcess(churn.SETTINGS)


@pytest.fixture
def churn_broker(sharing: Sharing) -> BrokerProcess:
    """Provide a process with short session timeouts, which may be killed."""
    return sharing.of(with_short_sessions)
