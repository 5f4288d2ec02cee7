"""Checks that all links and paths in the documentation exist."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchors, inline_code, pages, prose, written_pages

SOURCES = ROOT / "src" / "penstock"
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_ROOTS = ("src/", "client/", "tests/", "docs/", "examples/", "ops/", "benchmarks/", "scripts/", "requirements/")
# Files of other projects, and files that readers create.
_ELSEWHERE = frozenset({"pyspark/daemon.py"})


def links(page: str) -> list[str]:
    return [link for link in _LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", pages())
def test_links_have_a_target(page: str) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), f"{page} links to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(str(target.relative_to(ROOT))), f"{page} links to {link}: no such heading"


@cache
def _files() -> frozenset[str]:
    """Return the paths of all files and directories of the project."""
    kept = (each for root in _ROOTS for each in (ROOT / root).rglob("*") if "__pycache__" not in each.parts)
    return frozenset({*(str(each.relative_to(ROOT)) for each in kept), *(root.rstrip("/") for root in _ROOTS)})


def is_there(path: str) -> bool:
    """Return whether a path exists, from the root or as the end of a path below src/, client/src/ or examples/."""
    if (ROOT / path).exists():
        return True
    pattern = re.compile(rf"((client/)?src/(.+/)?|examples/(.+/)?)?{fnmatch.translate(path)}")
    return any(pattern.match(each) for each in _files())


def named_paths(page: str) -> list[str]:
    found = []
    for code in inline_code(page):
        for word in re.split(r"[\s,]+", code):
            path = word.split("::")[0].rstrip("/")
            is_path = path.endswith(".py") or word.startswith(_ROOTS) or _is_package(word)
            # Neither a placeholder nor a path on the reader's machine.
            if is_path and not re.search(r"[<>{}]|\.\.\.|^/", word):
                found.append(path)
    return found


def _is_package(word: str) -> bool:
    """Return whether a word such as `storage/compaction/` starts with the name of a package."""
    first, slash, _ = word.partition("/")
    return bool(slash) and (SOURCES / first).is_dir()


@pytest.mark.parametrize("page", written_pages())
def test_named_files_exist(page: str) -> None:
    folder = (ROOT / page).parent
    missing = [
        path
        for path in named_paths(page)
        if path not in _ELSEWHERE and not (folder / path).exists() and not is_there(path)
    ]
    assert not missing, f"{page} names files that do not exist: {missing}"


def test_a_wrong_path_is_detected() -> None:
    assert is_there("storage/log.py") and is_there("handlers/*_group*.py") and is_there("tests/README.md")
    assert not is_there("storage/logs.py") and not is_there("keeping.py") and not is_there("tests/none")
    assert Path(SOURCES / "storage" / "log.py").exists()
