"""Only their owners change the parts of a log and of a partition."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
import penstock_sim
from penstock.storage.log import Log
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import append, batch, open_log

SOURCES = [Path(penstock.__file__).parent, Path(penstock_sim.__file__).parent]
# Attribute names of logs, partitions and their parts, each with the modules that may assign to them.
OWNED = {
    # The class method that opens a log, and the in-memory log of the metadata quorum.
    "log": ("log.py", "core.py"),
    "_log": (),
    "offsets": (),
    "_offsets": (),
    "segments": (),
    "_segments": (),
    "flusher": (),
    "writer": (),
    "reader": (),
    "quarantine": (),
    "_quarantine": (),
    "producer_state": (),
    "epochs": ("recovery.py",),
    "compaction": (),
    "deletes": (),
    "marks": (),
    "waiters": (),
}


def assignments(source: str) -> Iterator[tuple[str, str]]:
    """Yield owner and attribute of every assignment to an attribute of something that is not `self`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            value = node.value
            owner = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
            yield owner, node.attr


def test_no_module_assigns_into_a_log_a_partition_or_a_part_of_one() -> None:
    found = [
        f"{path.name}: {owner}.{attribute}"
        for folder in SOURCES
        for path in sorted(folder.rglob("*.py"))
        for owner, attribute in assignments(path.read_text())
        if path.name not in OWNED.get(owner, (path.name,))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("log.offsets.end = 1", [("offsets", "end")]),
        ("self._log.x += 1", [("_log", "x")]),
        ("a, marks.high_watermark = 1, 2", [("marks", "high_watermark")]),
        ("self.end = log.end", [("self", "end")]),
    ],
)
def test_assignments_are_found(source: str, expected: list[tuple[str, str]]) -> None:
    assert list(assignments(source)) == expected


def test_a_log_has_no_attributes_but_those_it_declares() -> None:
    log = open_log(SimDisk())
    append(log, batch())
    assert not hasattr(log, "__dict__")
    with pytest.raises(AttributeError):
        log.end_offset = 5  # type: ignore[misc]
    assert len(Log.__slots__) <= 26
