"""A Kafka Streams application with exactly-once semantics, and the errors that brokers answered to its producers.

`streams/CountWords.java` counts words and checks that its output is exact. `run` starts it on a cluster of three
nodes and reads the error codes from its log. To compare Penstock with Apache Kafka under the same load:

    python -m tests.support.streams_application {penstock|kafka} RECORD-COUNT [restart]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kio.schema.errors import ErrorCode

from tests.support.apache_kafka_cluster import ApacheKafkaCluster
from tests.support.exclusive import exclusive
from tests.support.java_tools import CHECKOUT, KAFKA_VERSION, JavaMissing, java, java_environment
from tests.support.maven import JarsMissing, fetch_jars
from tests.support.penstock_cluster import PenstockCluster

SOURCES = Path(__file__).parent / "streams"
LOGGER = "org.slf4j.simpleLogger"
APIS = {"PRODUCE", "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT", "END_TXN", "INIT_PRODUCER_ID"}
RECEIVED = re.compile(r"\[Producer clientId=count-words\S+ .*Received (\w+) response")
CODE = re.compile(r"\berrorCode=(\d+)")
RESTARTED_NODE = 2
# Both start their groups without waiting for more members.
LIKE_KAFKA = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(slots=True)
class Answers:
    """What the brokers answered to the application's producers."""

    seconds: float = 0.0
    responses: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


def streams_classpath() -> str:
    """Return the classpath of the compiled application, fetching Kafka Streams with Maven the first time."""
    java()
    compiler = shutil.which("javac")
    if compiler is None:
        raise JavaMissing("javac is not installed (a JDK is needed, a JRE is not enough)")
    jars = CHECKOUT / ".cache" / f"kafka-streams-{KAFKA_VERSION}-{zlib.crc32((SOURCES / 'pom.xml').read_bytes()):08x}"
    try:
        fetch_jars("Kafka Streams", SOURCES / "pom.xml", jars, "-DincludeScope=runtime")
    except JarsMissing as reason:
        raise JavaMissing(str(reason)) from None
    classes = CHECKOUT / ".cache" / "streams-classes"
    source = SOURCES / "CountWords.java"
    compiled = classes / "CountWords.class"
    with exclusive(classes):
        if not compiled.exists() or compiled.stat().st_mtime <= source.stat().st_mtime:
            classes.mkdir(exist_ok=True)
            command = [compiler, "-cp", f"{jars}/*", "-d", str(classes), str(source)]
            subprocess.run(command, check=True, env=java_environment())
    return f"{classes}{os.pathsep}{jars}/*"


def run(bootstrap: str, count: int, *, meanwhile: Callable[[], None] | None = None) -> Answers:
    """Count the words of `count` records; call `meanwhile` once a tenth of the output is committed.

    Fails if the output is not exact.
    """
    classpath = streams_classpath()
    with tempfile.TemporaryDirectory(prefix="streams-") as folder:
        log = Path(folder) / "log"
        options = {
            f"{LOGGER}.logFile": str(log),
            f"{LOGGER}.defaultLogLevel": "warn",
            f"{LOGGER}.log.org.apache.kafka.clients.NetworkClient": "debug",
        }
        process = subprocess.Popen(
            [java(), "-Xmx512m", "-XX:+UseSerialGC", *(f"-D{key}={value}" for key, value in options.items()),
             "-cp", classpath, "CountWords", bootstrap, str(count), f"{folder}/state"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=java_environment(),
        )  # fmt: skip
        try:
            printed = list(_lines(process, meanwhile))
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        assert code == 0 and "exact" in printed, "\n".join(printed)
        with log.open(errors="replace") as lines:
            answers = _read(lines)
        answers.seconds = float(next(line for line in printed if line.startswith("seconds")).split()[1])
        return answers


def _lines(process: subprocess.Popen[str], meanwhile: Callable[[], None] | None) -> Iterator[str]:
    assert process.stdout is not None
    with process.stdout as out:
        for line in out:
            yield line.rstrip()
            if meanwhile is not None and line.startswith("committed"):
                meanwhile()
                meanwhile = None


def _read(lines: Iterator[str]) -> Answers:
    answers = Answers()
    for line in lines:
        received = RECEIVED.search(line)
        if received is None or received[1] not in APIS:
            continue
        answers.responses[received[1]] += 1
        for code in CODE.findall(line):
            if code != "0":
                answers.errors[received[1], ErrorCode(int(code)).name.upper()] += 1
    return answers


def main(peer: str, count: str, *more: str) -> None:
    """Run the application on three nodes and print the counts of responses and errors."""
    with PenstockCluster(properties=LIKE_KAFKA) if peer == "penstock" else ApacheKafkaCluster() as cluster:

        def restart() -> None:
            cluster.stop(RESTARTED_NODE)
            cluster.restart(RESTARTED_NODE)

        answers = run(cluster.bootstrap, int(count), meanwhile=restart if "restart" in more else None)
        print(f"{cluster.name}: {count} records, {answers.seconds} s, output exact")
        print("responses:", dict(answers.responses))
        for (api, error), times in sorted(answers.errors.items()):
            print(f"  {api} {error} {times}")


if __name__ == "__main__":
    main(*sys.argv[1:])
