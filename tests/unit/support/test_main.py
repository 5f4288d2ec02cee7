"""Tests of the environment that `python -m tests` gives to pytest."""

from tests.__main__ import BYTECODE, with_bytecode


def test_bytecode_goes_to_the_cache_where_it_must_not_be_written_beside_the_sources() -> None:
    found = with_bytecode({"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/home/a"})
    assert found == {"PYTHONPYCACHEPREFIX": str(BYTECODE), "HOME": "/home/a"}


def test_an_environment_without_that_rule_is_kept() -> None:
    assert with_bytecode({"HOME": "/home/a"}) == {"HOME": "/home/a"}


def test_a_place_for_bytecode_that_was_chosen_is_kept() -> None:
    found = with_bytecode({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/elsewhere"})
    assert found == {"PYTHONPYCACHEPREFIX": "/elsewhere"}
