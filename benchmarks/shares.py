"""`python -m benchmarks.shares`: share groups of Penstock and Apache Kafka, with Kafka's share consumer as the client.

One partition with records of 100 bytes that wait; `kafka-share-consumer-perf-test` reads them with 1, 10 and 100
consumers. Rounds alternate between the brokers, and the best round of each counts.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from contextlib import ExitStack

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from rich.console import Console
from rich.table import Table

from benchmarks.proc import cpu_seconds
from benchmarks.targets import Target
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing, java, java_environment, kafka_jars
from tests.support.penstock_process import PenstockProcess

TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"
SIZE = 100
CONSUMERS = (1, 10, 100)
TIMEOUT_S = 300
PROPERTIES = {"group.share.max.size": "200"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shares", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000, help="records that wait (default: 200,000)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--consumers", type=int, nargs="*", default=list(CONSUMERS))
    options = parser.parse_args()
    console = Console(width=120)
    results: dict[tuple[str, int], tuple[float, float]] = {}
    with ExitStack() as running:
        try:
            targets = _targets(running)
        except JavaMissing as reason:
            console.print(f"not run: {reason}")
            return 0
        for _ in range(options.rounds):
            for count in options.consumers:
                for target in targets:
                    rate, cpu_s = measure(target, options.records, count)
                    best = results.get((target.title, count), (0.0, float("inf")))
                    results[target.title, count] = max(rate, best[0]), min(cpu_s, best[1])
                    console.print(f"[dim]{target.title}, {count} consumers: {rate:,.0f}/s, {cpu_s:.1f} CPU s/M[/dim]")
    table = Table("broker", "consumers", "records/s", "broker CPU s per million records")
    for (title, count), (rate, cpu_s) in sorted(results.items(), key=lambda item: (item[0][1], item[0][0])):
        table.add_row(title, str(count), f"{rate:,.0f}", f"{cpu_s:.2f}")
    console.print(table)
    return 0


def _targets(running: ExitStack) -> list[Target]:
    return [
        Target("Penstock", "fsync", running.enter_context(PenstockProcess(properties=PROPERTIES))),
        Target(
            "Penstock",
            "OS flush",
            running.enter_context(PenstockProcess(properties={**PROPERTIES, "flush.mode": "os"})),
        ),
        Target(
            "Apache Kafka", "OS flush", running.enter_context(ApacheKafka(quick=False, properties=PROPERTIES))
        ),
    ]  # fmt: skip


def measure(target: Target, records: int, consumers: int) -> tuple[float, float]:
    """Return records per second, and CPU seconds of the broker per million records."""
    topic = target.new_topic()
    group = f"group-{topic}"
    _start_at_the_beginning(target, group)
    _fill(target, topic, records)
    before = cpu_seconds(target.server.pid)
    rate = _run_tool(target, topic, group, records, consumers)
    used = cpu_seconds(target.server.pid) - before
    target.delete_topic(topic)
    return rate, used / records * 1_000_000


def _start_at_the_beginning(target: Target, group: str) -> None:
    admin = AdminClient({"bootstrap.servers": target.server.bootstrap})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def _fill(target: Target, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": target.server.bootstrap, "linger.ms": 20, "batch.num.messages": 500})
    value = b"x" * SIZE
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    time.sleep(0.5)


def _run_tool(target: Target, topic: str, group: str, records: int, consumers: int) -> float:
    command = [
        java(), "-Xmx1g", "-cp", f"{kafka_jars()}/*", TOOL, "--bootstrap-server", target.server.bootstrap,
        "--topic", topic, "--group", group, "--num-records", str(records), "--threads", str(consumers),
        "--timeout", "60000",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=java_environment(), check=True
    )
    header, *rows = [line.split(", ") for line in done.stdout.splitlines() if ", " in line]
    names = [name.strip() for name in header]
    row = dict(zip(names, rows[0], strict=False))
    consumed, fetch_ms = float(row["data.consumed.in.nMsg"]), float(row["fetch.time.ms"])
    if consumed < records:
        raise RuntimeError(f"{target.title}: {consumed:.0f} of {records} records were read")
    return consumed / fetch_ms * 1000


if __name__ == "__main__":
    raise SystemExit(main())
