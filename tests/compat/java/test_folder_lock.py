"""Tests that Apache Kafka, its tools and Penstock do not open each other's data directories while in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.conftest import BrokerUnderTest
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

SHELL = "org.apache.kafka.shell.MetadataShell"


@pytest.fixture
def data(broker_under_test: BrokerUnderTest) -> Path:
    if broker_under_test.data is None:
        pytest.skip("the data directory of the broker under test is unknown")
    return broker_under_test.data


def test_the_metadata_shell_refuses_the_folder_of_a_running_broker(tools: JavaTools, data: Path) -> None:
    newest = sorted((data / "__cluster_metadata-0").glob("*.log"))[-1]
    refused = tools.run(SHELL, "--snapshot", str(newest), "ls", "/")
    assert refused.code != 0, refused.text
    assert "lock" in refused.text and str(data) in refused.text, refused.text


@pytest.mark.slow
def test_kafka_refuses_to_start_on_the_folder_of_a_running_broker(tools: JavaTools, data: Path) -> None:
    # Without the lock, Kafka accepts the directory and waits for the other nodes of the quorum.
    second = ApacheKafka(data=data)
    try:
        assert second.start_refused() != 0
    finally:
        second.discard()


@pytest.mark.slow
def test_penstock_refuses_to_start_on_the_folder_of_a_running_kafka(tools: JavaTools) -> None:
    with ApacheKafka() as kafka:
        refused = subprocess.run(
            [sys.executable, "-m", "penstock.cli.main", "start", "--data", str(kafka.data), "--port", "0"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert refused.returncode != 0
        assert f"{kafka.data} is in use by another process" in refused.stdout + refused.stderr
