"""The existing commands, targets and options: a static check of every command in the documentation."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

from typer.main import get_command

from penstock.cli.main import app
from tests.docs.markdown import ROOT

# Programs that every machine has, or that the surrounding text introduces.
OTHER_PROGRAMS = frozenset(
    {"cd", "curl", "docker", "echo", "export", "git", "install", "printf", "systemctl", "useradd", "uv", "pre-commit"}
)
_ENDS = frozenset({"|", "&&", "||", ";", "&"})


class Unknown(AssertionError):
    """A command of the documentation that does not exist."""


@cache
def _tree() -> Any:
    return get_command(app)


@cache
def make_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return the targets and the variables of the Makefile."""
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", text, re.MULTILINE)
    variables = re.findall(r"^(?:[a-z-]+: )?([A-Z_]+) \?=", text, re.MULTILINE)
    return frozenset(targets), frozenset(variables)


def simple_commands(text: str) -> Iterator[list[str]]:
    """Split a shell line into its commands."""
    words: list[str] = []
    for word in shlex.shlex(text, posix=True, punctuation_chars=True):
        if word in _ENDS:
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def check_line(text: str) -> None:
    for words in simple_commands(text.replace("\\\n", " ")):
        check_command(words)


def check_command(words: list[str]) -> None:
    program, *rest = words
    if program == "penstock":
        check_penstock(rest)
    elif program == "make":
        _check_make(rest)
    elif program == "pip":
        _check_install(rest)
    elif program in ("python", ".venv/bin/python"):
        _check_python(rest)
    elif program.startswith(".venv/bin/"):
        pass  # a tool of the development environment
    elif program not in OTHER_PROGRAMS:
        raise Unknown(f"{program} is neither a command of this project nor listed in OTHER_PROGRAMS")


def check_penstock(words: list[str]) -> None:
    """Raise if a command or an option is missing. `a|b` stands for two commands, `...` for anything."""
    for alternative in _alternatives(words):
        _check_options(alternative)


def _alternatives(words: list[str]) -> Iterator[list[str]]:
    if len(words) > 1 and "|" in words[1]:
        for each in words[1].split("|"):
            yield [words[0], each, *words[2:]]
    else:
        yield words


def _check_options(words: list[str]) -> None:
    command = _tree()
    path = ["penstock"]
    position = 0
    while hasattr(command, "commands") and position < len(words) and not words[position].startswith("-"):
        name = words[position]
        if name not in command.commands:
            raise Unknown(f"{' '.join(path)} has no command {name}")
        command = command.commands[name]
        path.append(name)
        position += 1
    options = {"-h", "--help"} | {each for param in command.params for each in (*param.opts, *param.secondary_opts)}
    if path == ["penstock"]:
        options.add("--version")
    for word in words[position:]:
        option = word.partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z-]*|-[A-Za-z]", option) and option not in options:
            raise Unknown(f"{' '.join(path)} has no option {option}")


def _check_make(words: list[str]) -> None:
    targets, variables = make_words()
    for word in words:
        name, is_variable, _ = word.partition("=")
        if name not in (variables if is_variable else targets):
            raise Unknown(f"the Makefile has no {'variable' if is_variable else 'target'} {name}")


def _check_install(words: list[str]) -> None:
    for word in words:
        named = re.fullmatch(r"(penstock|penstock-client)\[([\w,]+)\]", word)
        if named is None:
            continue
        path = ROOT / ("client/pyproject.toml" if named[1] == "penstock-client" else "pyproject.toml")
        extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
        for extra in named[2].split(","):
            if extra not in extras:
                raise Unknown(f"{path} has no extra {extra}")


def _check_python(words: list[str]) -> None:
    if words[:1] == ["-m"]:
        if find_spec(words[1]) is None:
            raise Unknown(f"the module {words[1]} does not exist")
    elif words and words[0].endswith(".py") and not (ROOT / words[0]).exists():
        raise Unknown(f"the script {words[0]} does not exist")
