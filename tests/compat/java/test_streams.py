"""Kafka Streams with exactly-once semantics on three nodes, one of which is restarted."""

from __future__ import annotations

import pytest

from tests.support.java_tools import JavaMissing
from tests.support.penstock_cluster import PenstockCluster
from tests.support.streams_application import RESTARTED_NODE, run, streams_classpath

pytestmark = [pytest.mark.java, pytest.mark.slow]

RECORD_COUNT = 60_000
# Answers after which the client repeats a request; it gives up after any other.
PASSING = {
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_OR_FOLLOWER",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
}


def test_the_output_is_exact_while_a_node_is_restarted() -> None:
    try:
        streams_classpath()
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with PenstockCluster() as cluster:

        def restart() -> None:
            cluster.stop(RESTARTED_NODE)
            cluster.restart(RESTARTED_NODE)

        answers = run(cluster.bootstrap, RECORD_COUNT, meanwhile=restart)
    assert answers.responses["PRODUCE"] > 0 and answers.responses["END_TXN"] > 0
    assert {error for _, error in answers.errors} <= PASSING
