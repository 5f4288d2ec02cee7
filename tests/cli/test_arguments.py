"""Arguments that are out of range are usage errors that name the range."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.command import penstock


def unboxed(text: str) -> str:
    """Return a usage error without its box and line breaks."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("option", ["--partitions", "--replication-factor"])
@pytest.mark.parametrize("value", ["0", "-1", "99999999"])
def test_topic_create_rejects_impossible_counts(run: Run, topic: str, option: str, value: str) -> None:
    outcome = run("topic", "create", topic, option, value)
    assert outcome.code == 2
    said = unboxed(outcome.err)
    assert f"Invalid value for '{option}'" in said and f"{value} is not in the range 1<=x<=" in said
    assert topic not in run("topic", "list").out


@pytest.mark.parametrize("value", ["0", "-1", "99999999"])
def test_topic_add_partitions_rejects_impossible_counts(run: Run, topic: str, value: str) -> None:
    run("topic", "create", topic)
    outcome = run("topic", "add-partitions", topic, "--partitions", value)
    assert outcome.code == 2 and "is not in the range 1<=x<=" in unboxed(outcome.err)


def test_without_a_count_the_default_of_the_broker_applies(run: Run, topic: str) -> None:
    assert run("topic", "create", topic).code == 0
    assert len(run("topic", "describe", topic, "--format", "json").json()) == 1


def test_cluster_init_accepts_hosts_with_ports(tmp_path: Path) -> None:
    outcome = penstock("cluster", "init", "--hosts", "localhost:9701,localhost:9702", "--data", str(tmp_path))
    assert outcome.code == 0, outcome.err
    text = (tmp_path / "node-2.properties").read_text()
    assert "listeners=PLAINTEXT://localhost:9702\n" in text
    assert "controller.quorum.voters=1@localhost:9701,2@localhost:9702\n" in text
