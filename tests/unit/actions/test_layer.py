"""Actions serve any front end: they print nothing and name no option or command of the command line."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.actions

SOURCES = sorted(Path(penstock.actions.__file__).parent.rglob("*.py"))
OPTION = re.compile(r"(?<![\w-])(--[a-z]|-X )|'penstock ")


def strings(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_an_action_knows_nothing_of_the_command_line(path: Path) -> None:
    tree = ast.parse(path.read_text())
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert not [text for text in strings(tree) if OPTION.search(text) and "keytool" not in text]
