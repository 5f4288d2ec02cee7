"""penstock bench against a live broker."""

import os
import pty
import signal
import subprocess
from contextlib import suppress
from threading import Thread

import pytest
from confluent_kafka.admin import AdminClient

from penstock.testing import Broker
from tests.integration.conftest import Fill
from tests.support.command import COMMAND, penstock


def topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics)


@pytest.mark.parametrize("acks", ["all", "0"])
def test_every_acknowledged_record_is_counted_and_read_back(penstock_broker_shared: Broker, acks: str) -> None:
    outcome = penstock(
        "bench", "--duration", "0.5", "--rate", "400", "--producers", "2", "--consumers", "2", "--record-size", "100",
        "--acks", acks, "--format", "json", "--bootstrap", penstock_broker_shared.bootstrap,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    produced, consumed = outcome.json()
    assert 0 < produced["records"] <= 200 and produced["errors"] == 0
    assert consumed["records"] == produced["records"]
    assert 0 < consumed["p50_ms"] <= consumed["p99_ms"] <= consumed["max_ms"]
    assert not any(name.startswith("penstock-bench-") for name in topics(penstock_broker_shared))


def test_a_given_topic_is_kept_and_its_other_records_are_not_counted(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x" * 50)] * 10)
    at = ("--topic", topic, "--duration", "0.2", "--rate", "100", "--bootstrap", group_broker.bootstrap)
    outcome = penstock("bench", *at, "--format", "json")
    assert outcome.code == 0, outcome.err
    produced, consumed = outcome.json()
    assert consumed["records"] == produced["records"] < 100
    assert topic in topics(group_broker)
    missing = penstock("bench", "--topic", f"{topic}-x", "--bootstrap", group_broker.bootstrap)
    assert missing.code == 1 and f"Did you mean '{topic}'" in missing.err


def _drain(controller: int) -> None:
    # The read fails when the terminal has no other end any more.
    with suppress(OSError):
        while os.read(controller, 4096):
            pass


def test_a_terminal_shows_the_rates_and_an_interrupt_shows_the_table(penstock_broker_shared: Broker) -> None:
    bootstrap = penstock_broker_shared.bootstrap
    controller, terminal = pty.openpty()
    command = [*COMMAND, "bench", "--duration", "600", "--rate", "50", "--bootstrap", bootstrap]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True)
    try:
        os.close(terminal)
        shown = b""
        while b"consumed" not in shown:
            shown += os.read(controller, 4096)
        # The command would block if nothing read its display until it ends.
        Thread(target=_drain, args=(controller,), daemon=True).start()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    assert process.returncode == 0
    assert b"of 600 s" in shown and b"records/s" in shown
    assert [line.split()[0] for line in out.splitlines()] == ["clients", "producers", "consumers"]
    assert not any(name.startswith("penstock-bench-") for name in topics(penstock_broker_shared))
