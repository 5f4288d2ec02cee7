"""Tests of every scenario against Apache Kafka and Penstock. `python -m tests.differential` prints the whole report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.run import BROKER_PROPERTIES, judge
from tests.differential.scenario import all_scenarios
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing
from tests.support.penstock_process import PenstockProcess

pytestmark = [pytest.mark.java, pytest.mark.slow]

SCENARIOS = all_scenarios()


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    try:
        peer = ApacheKafka(properties=BROKER_PROPERTIES)
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with peer:
        yield peer.bootstrap


@pytest.fixture(scope="module")
def penstock(kafka: str) -> Iterator[str]:
    with PenstockProcess(properties=BROKER_PROPERTIES) as process:
        yield process.bootstrap


@pytest.mark.parametrize("name", SCENARIOS)
def test_penstock_responds_as_kafka_does(name: str, kafka: str, penstock: str) -> None:
    verdict = judge(name, SCENARIOS[name], kafka=kafka, penstock=penstock)
    assert not verdict.faults, f"\n{verdict}"
