"""Tests of every scenario against Apache Kafka and Penstock. `python -m tests.differential` prints the whole report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.run import BROKER_PROPERTIES, Peers, judge
from tests.differential.scenario import all_scenarios
from tests.differential.secured import LISTENERS, secured_properties
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing
from tests.support.penstock_process import PenstockProcess
from tests.support.security import Certificates

pytestmark = [pytest.mark.java, pytest.mark.slow]

SCENARIOS = all_scenarios()


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    properties = BROKER_PROPERTIES | secured_properties(certificates)
    try:
        kafka = ApacheKafka(properties=properties, listeners=LISTENERS)
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with kafka, PenstockProcess(properties=properties, listeners=LISTENERS) as penstock:
        yield Peers(kafka.address, penstock.address, certificates)


@pytest.mark.parametrize("name", SCENARIOS)
def test_penstock_responds_as_kafka_does(name: str, peers: Peers) -> None:
    verdict = judge(name, SCENARIOS[name], peers)
    assert not verdict.faults, f"\n{verdict}"
