"""Tests that a leak fails only the test that leaks."""

from pathlib import Path

from tests.unit.support.suites import run_suite

SUITE = """
import socket

class Cycle:
    def __init__(self, held):
        self.held, self.itself = held, self

async def work():
    pass

def test_closes():
    Cycle(socket.socket()).held.close()

def test_leaks():
    Cycle(socket.socket())

def test_innocent():
    pass

def test_fails_and_leaks():
    cycle = Cycle(socket.socket())
    assert not cycle

def test_innocent_too():
    pass

def test_last_of_the_module_forgets_to_await():
    Cycle(work())
"""


def test_a_leak_fails_the_test_that_leaks(tmp_path: Path) -> None:
    assert run_suite(tmp_path, SUITE, "tests.support.leaks") == {
        "test_closes": {"PASSED"},
        "test_leaks": {"PASSED", "ERROR"},
        "test_innocent": {"PASSED"},
        "test_fails_and_leaks": {"FAILED", "ERROR"},
        "test_innocent_too": {"PASSED"},
        "test_last_of_the_module_forgets_to_await": {"PASSED", "ERROR"},
    }
