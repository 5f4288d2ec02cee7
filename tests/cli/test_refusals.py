"""Commands that cannot be carried out: each says why, and what to do instead. Nothing is changed."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.command import penstock


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("config", "set", "--broker", "one", "log.retention.ms=1"), "Invalid broker id 'one': expected a number."),
        (("consume", "t", "--group", ""), "--group is empty. Pass the name of a group."),
        (("produce", "t", "--key", "a", "--key-separator", ":"), "--key and --key-separator cannot be combined."),
        (("produce", "t", "--key-separator", ""), "--key-separator must not be empty."),
        (("cluster", "move", "t", "--to", "one,two"), "Invalid node ids 'one,two': expected numbers separated by"),
        (("cluster", "move", "t", "--to", "1"), "Topic 't' does not exist."),
        (("cluster", "drain", "9", "--yes"), "Node 9 does not exist."),
        (("user", "add", "someone", "--password-stdin"), "Standard input is empty. Write the password to it"),
        (("sql", "SELECT 1; SELECT 2"), "one statement"),
    ],
)
def test_a_command_that_cannot_be_carried_out_says_why(run: Run, words: tuple[str, ...], why: str) -> None:
    outcome = run(*words)
    assert outcome.code != 0
    assert why in " ".join(outcome.err.split())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("cluster", "init", "--hosts", ","),
            "--hosts is empty. Pass host names, for example --hosts alpha,beta,gamma",
        ),
        (("start", "--cores", "many"), "Invalid number of cores 'many': expected a number from 1 to 256, or 'auto'."),
        (("start", "--cores", "0"), "Invalid number of cores '0': expected a number from 1 to 256, or 'auto'."),
        (("start", "--secure", "--port", "0"), "--secure needs a fixed port, because clients' properties contain it"),
        (("start", "--secure", "--set", "listeners=SSL://:9093"), "--secure sets the listener: use --host and --port"),
        (("demo",), "has no generate.py. Pass the folder of a demo pipeline with --pipeline."),
    ],
)
def test_a_node_that_cannot_be_started_says_why(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    more = ("--pipeline", str(tmp_path)) if words == ("demo",) else ()
    outcome = penstock(*words, "--data", str(tmp_path / "data"), *more)
    assert outcome.code != 0
    assert why in " ".join(outcome.err.split())
    assert not (tmp_path / "data").exists()


def test_cluster_init_keeps_the_files_that_exist(tmp_path: Path) -> None:
    words = ("cluster", "init", "--hosts", "alpha,beta", "--data", str(tmp_path))
    assert penstock(*words).code == 0
    before = (tmp_path / "node-1.properties").read_text()
    assert penstock(*words).out.strip() == "all files exist; nothing was changed"
    assert (tmp_path / "node-1.properties").read_text() == before


def test_an_empty_list_says_so_on_standard_error(run: Run) -> None:
    outcome = run("quota", "list", "--user", "nobody")
    assert outcome.code == 0
    assert "No quota is set. Run 'penstock quota set --help' to see how to set one." in outcome.err
    assert run("quota", "list", "--user", "nobody", "--format", "json").json() == []


@pytest.mark.parametrize(("text", "value"), [("2MB", 2 * 1024 * 1024), ("1kb", 1024), ("500", 500)])
def test_a_rate_may_have_a_unit(run: Run, topic: str, text: str, value: int) -> None:
    """The names of topics are unique, and serve as names of users."""
    outcome = run("quota", "set", f"producer_byte_rate={text}", "--user", topic)
    assert outcome.code == 0, outcome.err
    rows = run("quota", "list", "--user", topic, "--format", "json").json()
    assert [(row["quota"], row["value"]) for row in rows] == [("producer_byte_rate", value)]
    assert run("quota", "remove", "--user", topic).code == 0
    again = run("quota", "remove", "producer_byte_rate", "--user", topic)
    assert again.code != 0 and "Quota 'producer_byte_rate' is not set for this entity." in again.err
