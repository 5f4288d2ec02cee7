"""Fixtures: one broker for all tests of the command line, and names that no other test uses."""

import itertools
from collections.abc import Callable

import pytest

from penstock.testing import Broker
from tests.support.command import Outcome, penstock

_numbers = itertools.count(1)
Run = Callable[..., Outcome]


@pytest.fixture
def bootstrap(penstock_broker_shared: Broker) -> str:
    return penstock_broker_shared.bootstrap


@pytest.fixture
def topic() -> str:
    return f"command-{next(_numbers)}"


@pytest.fixture
def run(bootstrap: str) -> Run:
    """Return a function that runs a command in this process, with the shared broker."""

    def run(*words: str, given: str = "") -> Outcome:
        return penstock(*words, "--bootstrap", bootstrap, given=given)

    return run
