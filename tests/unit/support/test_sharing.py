"""Tests that a shared fixture is created once per module, and again after a failure."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.sharing import Sharing
from tests.unit.support.suites import run_suite


def test_an_object_is_created_once_and_again_after_it_was_discarded() -> None:
    events: list[str] = []

    @contextmanager
    def thing() -> Iterator[int]:
        events.append("made")
        yield events.count("made")
        events.append("left")

    sharing = Sharing()
    assert (sharing.of(thing), sharing.of(thing)) == (1, 1)
    sharing.discard()
    assert events == ["made", "left"]
    assert sharing.of(thing) == 2
    sharing.discard()
    assert events == ["made", "left"] * 2


SUITE = """
import itertools, pytest
from contextlib import nullcontext

numbers = itertools.count(1)

def thing():
    return nullcontext(next(numbers))

@pytest.fixture
def number(sharing):
    return sharing.of(thing)

def test_first(number):
    assert number == 1

def test_second_fails(number):
    assert number != 1

def test_third(number):
    assert number == 2

def test_fourth(number):
    assert number == 2
"""


def test_a_test_that_failed_does_not_share_with_the_next(tmp_path: Path) -> None:
    assert run_suite(tmp_path, SUITE, "tests.support.sharing") == {
        "test_first": {"PASSED"},
        "test_second_fails": {"FAILED"},
        "test_third": {"PASSED"},
        "test_fourth": {"PASSED"},
    }
