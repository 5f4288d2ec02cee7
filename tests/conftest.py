"""What every test shares. The broker fixtures come from the project's own pytest plugin."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = ("tests.support.leaks", "tests.support.order", "tests.support.parts")

# Away from a developer's desk a run must say the same of the same commit; at the desk it may look elsewhere each time.
settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def own_address_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep a developer's own PENSTOCK_BOOTSTRAP from sending a test to a broker that is in use."""
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    yield
