"""What every test shares. The broker fixtures come from the project's own pytest plugin."""

import atexit
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.support.leaks", "tests.support.order", "tests.support.parts", "tests.support.sharing")

# How long an example takes says something of the machine, and nothing of the code.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# On a build server, the same commit must give the same verdict each time. Elsewhere, a run may look at other examples.
settings.register_profile("repeatable", settings.get_profile("tests"), derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "tests")

# A run under nohup or in the background ignores these signals, and so would the commands that tests start.
for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@atexit.register
def silence_leaks_of_duckdb() -> None:
    """Hide the hundred lines that DuckDB's binding prints as its process ends, which would bury the report of a run."""
    if "_duckdb" in sys.modules:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@pytest.fixture(autouse=True)
def own_address_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep a developer's own PENSTOCK_BOOTSTRAP from sending a test to a broker that is in use."""
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    yield
