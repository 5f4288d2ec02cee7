"""Every command in every situation that a user meets: exit code, first line, and nothing that should not be printed.

The commands come from the command tree, so a new one is covered without a change here.

| situation      | expected                                                                                           |
|----------------|----------------------------------------------------------------------------------------------------|
| no arguments   | a group: its help; missing arguments: the usage and exit code 2; otherwise it runs                  |
| -h             | `Usage: penstock COMMAND`, exit code 0                                                              |
| wrong port     | one line that names the address, exit code 1, within seconds                                       |
| missing topic  | one line that names the topic, exit code 1                                                         |
| not a terminal | no escape sequences in help, output and errors                                                     |
| NO_COLOR       | no colours on a terminal in help, output and errors                                                |
| Ctrl-C         | exit code 130, or 0 where it is the way to end the command; no traceback                           |
| closed pipe    | no message and no traceback                                                                        |
| 80 columns     | no line of the help is longer                                                                      |
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from typer.main import get_command

from penstock.cli.main import app
from penstock.testing import Broker
from tests.cli.conftest import Run
from tests.support.command import COMMAND, Outcome, penstock

NOBODY_LISTENS = "localhost:1"
MISSING = "no-such-topic"
# Each of these runs until it is interrupted.
ENDLESS = ("start", "demo", "cluster start", "console")
# What these print about a broker that is down is a table.
REPORTS = ("doctor",)
# These create the topic.
MAY_BE_MISSING = ("topic create", "produce")
VALUES = {"NODE": "1", "TOPIC-PARTITION": "orders-0", "OPERATION": "read", "RESOURCE": "topic:orders"}
OPTIONS = {"--to": "1", "--hosts": "localhost", "--data": "nowhere", "--partitions": "2", "--before": "1"}
# What a command needs although its declaration calls it optional.
MORE = {
    "bench": "--duration 1",
    "config get": "--cluster",
    "config set": "--cluster",
    "config unset": "--cluster",
    "group reset": "--to-earliest",
    "quota remove": "--client-id reports",
    "quota set": "--client-id reports",
    "txn abort": "billing",
}
QUERY = "SELECT name FROM Topic"
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")
ESCAPE = "\x1b["


class Leaf(NamedTuple):
    """A command without subcommands."""

    path: str
    command: Any

    @property
    def options(self) -> set[str]:
        return {option for parameter in self.command.params for option in parameter.opts}

    @property
    def connects(self) -> bool:
        # A profile stores the address and uses it later.
        return "--bootstrap" in self.options and not self.path.startswith("profile ")

    @property
    def needs_arguments(self) -> bool:
        return any(parameter.required for parameter in self.command.params)

    @property
    def has_topic(self) -> bool:
        return any(each.param_type_name == "argument" and "TOPIC" in _metavar(each) for each in self.command.params)

    def words(self, topic: str = "orders") -> list[str]:
        """Return the command with a plausible value for everything that is required."""
        words = self.path.split()
        for parameter in self.command.params:
            if not parameter.required:
                continue
            if parameter.param_type_name == "argument":
                words.append("a=1" if "=" in _metavar(parameter) else VALUES.get(_metavar(parameter), topic))
            else:
                words += [parameter.opts[0], OPTIONS[parameter.opts[0]]]
        words += [QUERY] if self.path == "sql" else MORE.get(self.path, "").split()
        return [*words, *(["--yes"] if "--yes" in self.options else [])]

    def __str__(self) -> str:
        return self.path


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    if not hasattr(command, "commands"):
        yield Leaf(" ".join(path), command)
        return
    for name, child in command.commands.items():
        yield from leaves(child, (*path, name))


def groups(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if hasattr(command, "commands"):
        yield " ".join(path)
        for name, child in command.commands.items():
            yield from groups(child, (*path, name))


LEAVES = list(leaves(get_command(app)))
GROUPS = list(groups(get_command(app)))
ENDING = [leaf for leaf in LEAVES if leaf.path not in ENDLESS]
CONNECTED = [leaf for leaf in ENDING if leaf.connects]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every command in an empty folder, with no settings of the developer."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", NOBODY_LISTENS)
    monkeypatch.setenv("TERM", "xterm-256color")


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def assert_one_line(outcome: Outcome) -> None:
    assert outcome.code == 1
    assert outcome.err.startswith("penstock: ") and outcome.err.count("\n") == 1, outcome.err
    assert "Traceback" not in outcome.err and "PENSTOCK_DEBUG" not in outcome.err


@pytest.mark.parametrize("path", GROUPS)
def test_a_group_without_arguments_prints_its_help(path: str) -> None:
    outcome = penstock(*path.split())
    assert outcome.code in (0, 2)
    assert re.match(r"Usage: .*penstock ?" + path, first_line(outcome.out or outcome.err))


@pytest.mark.parametrize("leaf", ENDING, ids=str)
def test_without_arguments(leaf: Leaf) -> None:
    outcome = penstock(*leaf.path.split())
    if leaf.needs_arguments:
        assert outcome.code == 2
        assert re.match(rf"Usage: .*penstock {leaf.path}", first_line(outcome.err))
        assert "Missing" in outcome.err
    else:
        assert outcome.code in (0, 1) and "Traceback" not in outcome.err
        assert outcome.code == 0 or outcome.out or outcome.err.startswith("penstock: "), outcome


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_help_fits_into_80_columns(leaf: Leaf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = penstock(*leaf.path.split(), "-h")
    assert outcome.code == 0 and outcome.err == ""
    assert re.match(rf"Usage: .*penstock {leaf.path}", first_line(outcome.out))
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert ESCAPE not in outcome.out, "the output is not a terminal"


@pytest.mark.parametrize("leaf", CONNECTED, ids=str)
def test_a_wrong_port_is_reported_in_one_line(leaf: Leaf) -> None:
    outcome = penstock(*leaf.words(), "--bootstrap", NOBODY_LISTENS)
    if leaf.path in REPORTS:
        assert outcome.code == 1 and "connection refused" in outcome.out
        return
    assert_one_line(outcome)
    if not leaf.path.startswith("pipeline"):
        assert NOBODY_LISTENS in outcome.err, outcome.err


@pytest.mark.parametrize(
    "leaf", [leaf for leaf in CONNECTED if leaf.has_topic and leaf.path not in MAY_BE_MISSING], ids=str
)
def test_a_missing_topic_is_named(leaf: Leaf, bootstrap: str) -> None:
    outcome = penstock(*leaf.words(MISSING), "--bootstrap", bootstrap)
    assert_one_line(outcome)
    assert MISSING in outcome.err


@pytest.mark.parametrize("leaf", ENDING, ids=str)
def test_without_a_terminal_there_are_no_escape_sequences(
    leaf: Leaf, bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
    outcome = penstock(*leaf.words(topic))
    assert outcome.code in (0, 1) and outcome.out + outcome.err
    assert ESCAPE not in outcome.out + outcome.err


@pytest.mark.parametrize("no_color", [True, False])
@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_no_color_is_respected_on_a_terminal(leaf: Leaf, no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    outcome = penstock(*leaf.path.split(), "-h", terminal=True)
    assert outcome.code == 0
    assert bool(COLOUR.search(outcome.out)) is not no_color


@pytest.mark.parametrize("leaf", ENDING, ids=str)
def test_no_color_is_respected_in_the_output_on_a_terminal(
    leaf: Leaf, bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
    monkeypatch.setenv("NO_COLOR", "1")
    outcome = penstock(*leaf.words(topic), terminal=True)
    assert outcome.code in (0, 1) and outcome.out + outcome.err
    assert not COLOUR.search(outcome.out + outcome.err)


@pytest.mark.parametrize("leaf", [leaf for leaf in CONNECTED if not leaf.path.startswith("pipeline")], ids=str)
def test_ctrl_c_while_connecting_ends_the_command_quietly(leaf: Leaf) -> None:
    with mock.patch("socket.create_connection", side_effect=KeyboardInterrupt):
        outcome = penstock(*leaf.words(), "--bootstrap", NOBODY_LISTENS)
    assert outcome.code == 130, outcome
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("words", ["topic list -h", "topic list", "cluster nodes --format json", "sql --tables"])
def test_a_closed_pipe_is_not_reported(words: str, bootstrap: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    # With it, Python would notice the closed pipe before it exits.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    environment["PENSTOCK_BOOTSTRAP"] = bootstrap
    try:
        done = subprocess.run(
            [*COMMAND, *words.split()], stdout=writing, stderr=subprocess.PIPE, env=environment, text=True, timeout=60
        )
    finally:
        os.close(writing)
    assert done.returncode in (0, 1) and done.stderr == ""


def test_output_that_does_not_fit_on_the_disk_is_an_error(bootstrap: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "cluster", "nodes", "--bootstrap", bootstrap], stdout=full, stderr=subprocess.PIPE,
            env=environment, text=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "penstock: No space left on device\n")


@pytest.fixture(scope="module")
def without_reader(
    penstock_broker_shared: Broker, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int, str]]:
    """Provide exit code and standard error of every command whose reader is gone."""
    lines = [json.dumps(leaf.words("closed")) for leaf in ENDING]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.closed_pipe", penstock_broker_shared.bootstrap],
        input="\n".join(lines),
        cwd=tmp_path_factory.mktemp("closed"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    outcomes = map(json.loads, done.stdout.splitlines())
    return {leaf.path: (code, text) for leaf, (code, text) in zip(ENDING, outcomes, strict=True)}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("leaf", ENDING, ids=str)
def test_no_command_reports_a_closed_pipe(leaf: Leaf, without_reader: dict[str, tuple[int, str]]) -> None:
    code, text = without_reader[leaf.path]
    assert code in (0, 1), text
    assert "Errno" not in text and "pipe" not in text.replace("pipeline", "") and "Traceback" not in text


@pytest.mark.parametrize(
    ("words", "code"),
    [("consume {} --follow", 0), ("group lag --watch", 0), ("produce {}", 0), ("start --port 0 --data {}", 0)],
)
def test_ctrl_c_ends_a_command_that_waits(words: str, code: int, bootstrap: str, topic: str, run: Run) -> None:
    run("topic", "create", topic)
    run("produce", topic, given="a record\n")
    environment = {**os.environ, "PENSTOCK_BOOTSTRAP": bootstrap, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "penstock.cli.main", *words.format(topic).split()]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        if words.startswith("produce"):
            # It prints nothing before its input ends: the record shows that it runs.
            process.stdin.write("another\n" * 2000)
            process.stdin.flush()
            consumed = subprocess.run(
                [*COMMAND, "consume", topic, "--follow", "-n", "2"], capture_output=True, env=environment, timeout=60
            )
            assert consumed.returncode == 0
        else:
            assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
