"""Arguments that are out of range are usage errors that name the range."""

import pytest

from tests.cli.conftest import Run


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
