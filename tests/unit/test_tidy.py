"""Limits that keep the code readable: no oversized file or function, and no public name that nothing uses.

An exception is listed in one of the tables with its reason. An entry that needs no exception any more fails as well.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS = {"src/penstock/cli/consume.py:consume": "65 lines declare options; the body is short"}
FOUND_BY_PREFIX = {"src/penstock_sim/checkers/": "inv_", "src/penstock_sim/scenario.py": "do_"}
"""Functions that the simulator finds by the beginning of their name."""
CALLED_FROM_OUTSIDE = {
    "client/src/penstock_spark/lake/source.py:streamWriter": "Spark calls it",
    "client/src/penstock_spark/pipelines/graph.py:register_auto_cdc_flow": "Spark calls it",
    "client/src/penstock_spark/pipelines/graph.py:register_flow": "Spark calls it",
    "client/src/penstock_spark/pipelines/graph.py:register_output": "Spark calls it",
    "client/src/penstock_spark/topics/readers.py:getDefaultReadLimit": "Spark calls it",
    "client/src/penstock_spark/topics/readers.py:initialOffset": "Spark calls it",
    "client/src/penstock_spark/topics/readers.py:prepareForTriggerAvailableNow": "Spark calls it",
    "client/src/penstock_spark/topics/readers.py:reportLatestOffset": "Spark calls it",
    "client/src/penstock_spark/topics/source.py:streamReader": "Spark calls it",
    "client/src/penstock_spark/topics/source.py:streamWriter": "Spark calls it",
    "src/penstock/arrow/reading.py:row_count_max": "public API (docs/public-api.md)",
    "src/penstock/cli/command_tree.py:list_commands": "typer calls it",
    "src/penstock/node.py:metrics_port": "tests find the endpoint that listens on a free port",
    "src/penstock/sqlview/result.py:dicts": "public API (docs/public-api.md)",
    "src/penstock/storage/compaction/cleaner.py:is_busy": "tests wait for the end of a pass",
    "src/penstock/testing/broker.py:restart_here": "public API (docs/public-api.md)",
    "src/penstock/wire/batch.py:delete_horizon_ms": "tests read a field that the broker writes and never parses",
    "src/penstock_sim/disk.py:finish_sync": "tests decide when a sync ends",
    "src/penstock_sim/disk.py:syncs_under_way": "tests decide when a sync ends",
    "src/penstock_sim/loop.py:get_debug": "asyncio calls it",
    "src/penstock_sim/scenario.py:run_file": "tests run the scenarios",
    "src/penstock_sim/world.py:emit": "logging calls it",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def sources() -> dict[str, ast.Module]:
    """Return every installed module and the simulator, parsed, by path."""
    paths = (path for folder in ("src", "client/src") for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def definitions() -> Iterator[tuple[str, Definition]]:
    for path, module in sources().items():
        for node in ast.walk(module):
            if isinstance(node, Definition):
                yield path, node


def used_names() -> set[str]:
    """Return every name that code or an entry point refers to; definitions and comments do not count."""
    used = set(re.findall(r"\w+", _entry_points()))
    for module in sources().values():
        for node in ast.walk(module):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                    used.add(name)
                case ast.Constant(value=str(text)) if text.isidentifier():
                    # The name in `__all__`, `getattr` or a table of functions.
                    used.add(text)
    return used


def _entry_points() -> str:
    projects = (tomllib.loads((ROOT / each).read_text()) for each in ("pyproject.toml", "client/pyproject.toml"))
    return " ".join(
        f"{project['project'].get('scripts')} {project['project'].get('entry-points')}" for project in projects
    )


def test_no_file_is_too_long() -> None:
    found = {path for path in sources() if len((ROOT / path).read_text(encoding="utf-8").splitlines()) > FILE_LINES_MAX}
    assert found == LONG_FILES.keys()


def test_no_function_is_too_long() -> None:
    found = {
        f"{path}:{node.name}"
        for path, node in definitions()
        if not isinstance(node, ast.ClassDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert found == LONG_FUNCTIONS.keys()


def test_every_public_name_is_used() -> None:
    used = used_names()
    found = {
        f"{path}:{node.name}"
        for path, node in definitions()
        if node.name not in used and not node.name.startswith("_") and not _is_registered(path, node)
    }
    assert found == CALLED_FROM_OUTSIDE.keys()


def _is_registered(path: str, node: Definition) -> bool:
    """Return whether a decorator or a prefix registers the definition, so that no code need name it."""
    decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}
    return bool(decorators & {"append_flow", "bug", "callback", "command", "fixture"}) or any(
        path.startswith(folder) and node.name.startswith(prefix) for folder, prefix in FOUND_BY_PREFIX.items()
    )
