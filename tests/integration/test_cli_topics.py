"""penstock topic list, and the suggestions and completions of topic and group names."""

import os
import subprocess
import sys

from penstock.testing import Broker
from tests.integration.conftest import Fill
from tests.support.command import Outcome, penstock


def run(broker: Broker, *words: str) -> Outcome:
    return penstock(*words, "--bootstrap", broker.bootstrap)


def test_topics_are_listed_with_their_sizes(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x" * 3000)], partitions=2)
    outcome = run(group_broker, "topic", "list", "--format", "json")
    row = next(row for row in outcome.json() if row["topic"] == topic)
    assert (row["partitions"], row["replication_factor"]) == (2, 1)
    assert 3000 < row["size"] < 4096 and row["size_on_disk"] == row["size"]
    table = run(group_broker, "topic", "list").out.splitlines()
    assert table[0].split()[:6] == ["topic", "partitions", "replication", "factor", "size", "size"]
    (line,) = [line for line in table if line.startswith(f"{topic} ")]
    assert "3.0 KiB" in line


def test_internal_topics_are_hidden_unless_asked_for(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x")])
    assert run(group_broker, "consume", topic, "--group", topic).out == "x\n"
    listed = run(group_broker, "topic", "list")
    assert "__consumer_offsets" not in listed.out and "Internal topics are hidden" in listed.err
    assert "__consumer_offsets" in run(group_broker, "topic", "list", "--internal").out


def test_a_misspelled_name_is_answered_with_a_similar_one(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x")])
    assert run(group_broker, "consume", topic, "--group", f"{topic}-readers").code == 0
    meant_topic, meant_group = f"Did you mean '{topic}'", f"Did you mean '{topic}-readers'"
    wrong = f"{topic}z"
    for words in (
        ["consume", wrong],
        ["consume", wrong, "--group", "other"],
        ["topic", "describe", wrong],
        ["topic", "skew", wrong],
        ["config", "get", "--topic", wrong],
    ):
        outcome = run(group_broker, *words)
        assert outcome.code == 1 and meant_topic in outcome.err, (words, outcome)
    for command in ("describe", "lag"):
        outcome = run(group_broker, "group", command, f"{topic}-reader")
        assert outcome.code == 1 and meant_group in outcome.err
    outcome = run(group_broker, "config", "set", "--topic", topic, "retention.mss=1")
    assert outcome.code == 1 and "Did you mean 'retention.ms'?" in outcome.err
    outcome = run(group_broker, "topic", "create", f"{topic}-new", "--config", "cleanup.polcy=compact")
    assert outcome.code == 1 and "Did you mean 'cleanup.policy'?" in outcome.err
    outcome = run(group_broker, "config", "get", "--topic", topic, "retention.mss")
    assert outcome.code == 1 and "Did you mean 'retention.ms'?" in outcome.err
    outcome = run(group_broker, "config", "set", "--cluster", "log.retention.hour=1")
    assert outcome.code == 1 and outcome.err.endswith("Did you mean 'log.retention.hours'?\n")
    outcome = run(group_broker, "config", "set", "--cluster", "node.id=5")
    assert outcome.code == 1 and "Set it in the configuration file of each node, and restart" in outcome.err


def completions(broker: Broker, line: str, environment: dict[str, str]) -> list[str]:
    """Return what bash offers for the last word of a line."""
    given = {
        **os.environ,
        "PENSTOCK_BOOTSTRAP": broker.bootstrap,
        "_PENSTOCK_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        **environment,
    }
    # The variable is named after the program, which is not `penstock` for a module.
    program = "import sys; sys.argv[0] = 'penstock'; from penstock.cli.main import app; app(prog_name='penstock')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_topics_and_groups(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(None, "x")])
    assert run(group_broker, "consume", topic, "--group", f"{topic}-readers").code == 0
    start = topic[:-1]
    assert topic in completions(group_broker, f"penstock topic describe {start}", {})
    assert topic in completions(group_broker, f"penstock config get --topic {start}", {})
    assert f"{topic}-readers" in completions(group_broker, f"penstock group lag {start}", {})
    # An option on the line counts, and a topic that is named is not offered again.
    nowhere = {"PENSTOCK_BOOTSTRAP": "localhost:1"}
    line = f"penstock topic describe -b {group_broker.bootstrap} {topic} {topic}"
    assert topic not in completions(group_broker, line, nowhere)
    assert topic in completions(group_broker, f"penstock consume -b {group_broker.bootstrap} {start}", nowhere)
    assert completions(group_broker, f"penstock consume {start}", nowhere) == []
