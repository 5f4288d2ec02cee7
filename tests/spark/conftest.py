"""One Spark session and one broker for all Spark tests: a session takes ten seconds to start, a topic a millisecond."""

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

# A trigger waits for Python processes to start; on a busy machine that takes a while.
TIMEOUT_S = 900
_numbers = itertools.count(1)
# No JVM of a test lives long enough to earn back what the second compiler costs, on two cores that others use too.
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
    """For every JVM that a test starts, in this process or below it."""
    with pytest.MonkeyPatch.context() as patch:
        if "JAVA_TOOL_OPTIONS" not in os.environ:
            patch.setenv("JAVA_TOOL_OPTIONS", _JVM_FLAGS)
        # Java has no other way to know how the names of files are encoded, and Spark none to do without the hostname.
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def connector() -> list[str]:
    """The jars of Spark's own Kafka connector, or none where Maven cannot fetch them."""
    try:
        return connector_jars()
    except ConnectorMissing:
        return []


@pytest.fixture(scope="session")
def spark(connector: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two cores that tries a task three times."""
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
    """A node of its own process; use topics of your own."""
    with BrokerProcess({"group.initial.rebalance.delay.ms": "0"}) as process:
        yield process


@pytest.fixture(scope="session")
def log(broker: BrokerProcess) -> Iterator[Log]:
    with Log(broker.bootstrap) as made:
        yield made


@pytest.fixture
def new_topic(log: Log) -> Callable[..., str]:
    """Create a topic with a name of its own."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(_numbers)}"
        log.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    return create
