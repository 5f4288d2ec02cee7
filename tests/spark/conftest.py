"""Fixtures: one Spark session and one broker for all tests, because a session takes ten seconds to start."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.testing import BrokerProcess
from tests.spark.connector import ConnectorMissing, connector_jars
from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A trigger waits for Python processes to start, which may take long on a busy machine. The time includes the fixtures,
# whose own limits are reported with the output of the process that they wait for.
TIMEOUT_S = 1800
_numbers = itertools.count(1)
# No JVM of a test lives long enough to benefit from the second compiler, on two shared cores.
_JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            # pyspark leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session", autouse=True)
def jvm_settings() -> Iterator[None]:
    """Configure every JVM that a test starts, in this process or a child."""
    with pytest.MonkeyPatch.context() as patch:
        if "JAVA_TOOL_OPTIONS" not in os.environ:
            patch.setenv("JAVA_TOOL_OPTIONS", _JVM_FLAGS)
        # Java has no other way to learn the encoding of file names, and Spark cannot do without the hostname.
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def connector() -> list[str]:
    """Provide the jars of Spark's Kafka connector, or none if Maven cannot fetch them."""
    try:
        return connector_jars()
    except ConnectorMissing:
        return []


@pytest.fixture(scope="session")
def spark(connector: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Provide a session with two cores that tries a task three times."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    from penstock_spark.session import builder

    warehouse = tmp_path_factory.mktemp("warehouse")
    made = (
        builder("tests", master="local[2,3]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    if connector:
        made = made.config("spark.jars", ",".join(connector))
    session = made.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerProcess]:
    """Provide a node in a separate process; use unique topics."""
    with BrokerProcess({"group.initial.rebalance.delay.ms": "0"}) as process:
        yield process


@pytest.fixture(scope="session")
def log(broker: BrokerProcess) -> Iterator[Log]:
    with Log(broker.bootstrap) as made:
        yield made


@pytest.fixture
def new_topic(log: Log) -> Callable[..., str]:
    """Create a topic with a unique name."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(_numbers)}"
        log.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    return create
