"""Checks every fenced block and every command in the text: it must exist as written, even if it is not run."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec

import pytest
import yaml

from tests.docs.commands import OTHER_PROGRAMS, Unknown, check_line, check_penstock, make_words
from tests.docs.markdown import LANGUAGES, MARKS, Block, blocks, inline_code, written_pages

BLOCKS = [block for page in written_pages() for block in blocks(page)]
_COMMAND = re.compile(r"penstock( [a-z|-]+)+( .*)?")


def python_source(block: Block) -> str:
    return f"(beginning\n{block.text})" if "fragment" in block.marks else block.text


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_names_its_language_and_its_marks_are_known(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block} has no language; use one of {sorted(LANGUAGES)}"
    assert set(block.marks) <= MARKS, f"{block} has an unknown mark"
    assert block.marks.get("not run", "a reason"), f"{block}: say why it is not run"


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "console"], ids=str)
def test_the_commands_of_a_block_exist(block: Block) -> None:
    for command in block.commands:
        check_line(command.text)


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "python"], ids=str)
def test_python_compiles_and_its_imports_exist(block: Block) -> None:
    tree = ast.parse(python_source(block))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(find_spec(name.name) for name in node.names), f"{block}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom):
            module = __import__(node.module or "", fromlist=[name.name for name in node.names])
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            assert not missing, f"{block}: {node.module} has no {missing}"


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language in ("json", "yaml")], ids=str)
def test_data_can_be_read(block: Block) -> None:
    assert json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)


@pytest.mark.parametrize("page", written_pages())
def test_commands_in_the_text_exist(page: str) -> None:
    targets, _ = make_words()
    for code in inline_code(page):
        if _COMMAND.fullmatch(code):
            check_penstock(re.split(r"\s+", code)[1:])
        elif target := re.match(r"make ([a-z-]+)", code):
            assert target[1] in targets, f"{page}: {code}"


def test_a_wrong_command_is_detected() -> None:
    for wrong in (
        "penstock topics list",
        "penstock topic make orders",
        "penstock topic create orders --partition 3",
        "make tests",
        "make test JOBS=3",
        "pip install 'penstock[sparks]'",
        "python examples/none.py",
        "python -m penstock_none",
        "rpk topic list",
    ):
        with pytest.raises(Unknown):
            check_line(wrong)
    assert "penstock" not in OTHER_PROGRAMS
