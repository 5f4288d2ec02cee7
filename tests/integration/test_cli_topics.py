"""penstock topic list, and the suggestions and completions of topic and group names."""

from penstock.testing import Broker
from tests.integration.command import Outcome, penstock
from tests.integration.conftest import Fill


def run(broker: Broker, *words: str) -> Outcome:
    return penstock(*words, "--bootstrap", broker.bootstrap)


def test_topics_are_listed_with_their_sizes(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x" * 3000)], partitions=2)
    outcome = run(group_broker, "topic", "list", "--format", "json")
    row = next(row for row in outcome.json() if row["topic"] == topic)
    assert (row["partitions"], row["replication_factor"]) == (2, 1)
    assert 3000 < row["size"] < 4096 and row["size_on_disk"] == row["size"]
    table = run(group_broker, "topic", "list").out.splitlines()
    assert table[0].split() == [
        "topic",
        "partitions",
        "replication",
        "factor",
        "size",
        "size",
        "on",
        "disk",
        "topic",
        "id",
    ]
    (line,) = [line for line in table if line.startswith(f"{topic} ")]
    assert "3.0 KiB" in line


def test_internal_topics_are_hidden_unless_asked_for(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x")])
    assert run(group_broker, "consume", topic, "--group", topic).out == "x\n"
    listed = run(group_broker, "topic", "list")
    assert "__consumer_offsets" not in listed.out and "internal topics are hidden" in listed.err
    assert "__consumer_offsets" in run(group_broker, "topic", "list", "--internal").out
