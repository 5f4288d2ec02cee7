"""Tests that the order of a run depends only on its seed, and keeps modules together."""

from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.support.order import module_of, part_of, shuffled

IDS = [f"tests/{part}/test_{module}.py::test_{n}" for part in ("unit", "crash") for module in "abc" for n in range(4)]


def order(ids: list[str], seed: int) -> list[str]:
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in ids]
    return [item.nodeid for item in shuffled(items, Random(seed))]


def test_a_seed_gives_one_order_regardless_of_the_collection_order() -> None:
    assert order(IDS, 7) == order(IDS[::-1], 7)
    assert order(IDS, 7) != order(IDS, 8)
    assert sorted(order(IDS, 7)) == sorted(IDS)


def test_the_tests_of_a_module_stay_together() -> None:
    modules = [module_of(nodeid) for nodeid in order(IDS, 7)]
    changes = sum(one != other for one, other in pairwise(modules))
    assert changes == len(set(modules)) - 1


def test_parts_that_start_processes_come_first_and_of_those_the_users_of_java() -> None:
    java = "tests/compat/java/test_a.py::test_0"
    assert order([*IDS, java], 7)[0] == java
    assert [part_of(nodeid) for nodeid in order(IDS, 7)] == ["crash"] * 12 + ["unit"] * 12
