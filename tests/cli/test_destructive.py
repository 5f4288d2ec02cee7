"""Destructive commands ask on a terminal, and require --yes elsewhere."""

import os
import pty
import re
import subprocess

import pytest

from tests.cli.conftest import Run
from tests.cli.test_command_table import LEAVES
from tests.support.command import COMMAND

DESTROYING = re.compile(r"abort|accept-loss|delete.*|drain|expire|purge|rebalance|remove|unset")
WITHOUT_LOSS = {
    "config unset": "the value can be set again",
    "profile remove": "a profile is an entry of a local file",
    "quota remove": "the quota can be set again",
}
DESTRUCTIVE = [leaf for leaf in LEAVES if DESTROYING.fullmatch(leaf.path.split()[-1]) and leaf.path not in WITHOUT_LOSS]


def test_every_destructive_command_has_the_option() -> None:
    assert [leaf.path for leaf in DESTRUCTIVE if "--yes" not in leaf.options] == []
    assert WITHOUT_LOSS.keys() <= {leaf.path for leaf in LEAVES if "--yes" not in leaf.options}


def test_without_a_terminal_yes_is_required(run: Run, topic: str) -> None:
    run("topic", "create", topic)
    refused = run("topic", "delete", topic)
    assert (refused.code, refused.out) == (1, "")
    assert f"Delete topic {topic} with all records? Pass --yes to confirm" in refused.err
    assert "Nothing was changed" in refused.err
    assert topic in run("topic", "list").out
    assert run("topic", "delete", topic, "--yes").out == f"deleted {topic}\n"
    for words in (("group", "delete", "none"), ("txn", "abort", "none"), ("user", "remove", "none")):
        assert "Pass --yes to confirm" in run(*words).err


@pytest.mark.parametrize(("answer", "code", "remains"), [(b"n\n", 1, True), (b"y\n", 0, False)])
def test_on_a_terminal_the_command_asks(
    run: Run, bootstrap: str, topic: str, answer: bytes, code: int, remains: bool
) -> None:
    run("topic", "create", topic)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(
            [*COMMAND, "topic", "delete", topic, "--bootstrap", bootstrap],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stderr
    assert f"Delete topic {topic} with all records?" in done.stderr
    assert ("Nothing was changed." in done.stderr) is remains
    assert (topic in run("topic", "list").out) is remains
