"""Spark batch and streaming, and a pipeline, on a secured cluster of three nodes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.config.properties import parse_properties
from tests.support.ports import HOST, adjacent_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("cryptography")

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("copied", "penstock", {"topic": "piped"})

@dp.append_flow(target="copied")
def copy():
    return spark.readStream.format("penstock").option("subscribe", "in").load().select("key", "value")
"""


class Secured:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "security" / "client.properties"
        self.properties = parse_properties(self.file.read_text())

    @property
    def options(self) -> dict[str, str]:
        """Return the options of a source or a sink."""
        return {f"kafka.{name}": value for name, value in self.properties.items()}

    def fill(self, topic: str, values: list[str]) -> None:
        admin = AdminClient(dict(self.properties))
        admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(60)
        producer = Producer(dict(self.properties))
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured") / "cluster"
    port = adjacent_ports(6)[0]
    words = ["cluster", "start", "--secure", "--nodes", "3", "--host", HOST, "--port", str(port), "--data", str(folder)]
    process = subprocess.Popen(
        [*PENSTOCK, *words, "--set", "log.reserve.bytes=0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), process.stderr.read()
        yield Secured(folder)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def rows(spark: SparkSession, secured: Secured, topic: str) -> Counter[str]:
    reader: Any = spark.read.format("penstock").options(subscribe=topic, **secured.options)
    return Counter(bytes(row.value).decode() for row in reader.load().collect())


def test_batches_and_streams_and_a_pipeline(spark: SparkSession, secured: Secured, tmp_path: Path) -> None:
    values = [str(number) for number in range(300)]
    secured.fill("in", values)
    for topic in ("batch", "streamed", "piped"):
        secured.fill(topic, [])
    frame = spark.read.format("penstock").options(subscribe="in", **secured.options).load().select("key", "value")
    frame.write.format("penstock").mode("append").options(topic="batch", **secured.options).save()
    assert rows(spark, secured, "batch") == Counter(values)

    reader = spark.readStream.format("penstock").options(subscribe="in", startingOffsets="earliest", **secured.options)
    writer = reader.load().select("key", "value").writeStream.format("penstock").option("topic", "streamed")
    writer = writer.options(checkpointLocation=str(tmp_path / "checkpoint"), **secured.options)
    writer.trigger(availableNow=True).start().awaitTermination(200)
    assert rows(spark, secured, "streamed") == Counter(values)

    project = tmp_path / "project"
    project.mkdir()
    (project / "flows.py").write_text(FLOWS)
    (project / "spark-pipeline.yml").write_text(
        "name: test\nstorage: storage\nlibraries:\n  - glob: {include: flows.py}\nconfiguration:\n"
        "  spark.master: local[2]\n  spark.driver.memory: 1g\n  spark.ui.enabled: 'false'\n"
    )
    for words in (["pipeline", "run"], ["pipeline", "lag"]):
        command = [*PENSTOCK, *words, str(project), "--command-config", str(secured.file)]
        command += ["-b", secured.properties["bootstrap.servers"]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert secured.properties["sasl.password"] not in done.stdout + done.stderr
    assert rows(spark, secured, "piped") == Counter(values)


def test_a_wrong_password_is_reported_without_it(spark: SparkSession, secured: Secured) -> None:
    wrong = {**secured.options, "kafka.sasl.password": "canary-7f3a"}
    with pytest.raises(Exception, match="SASL login") as failed:
        spark.read.format("penstock").options(subscribe="in", **wrong).load().collect()
    assert "canary-7f3a" not in str(failed.value)
