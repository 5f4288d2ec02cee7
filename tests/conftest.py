"""What every test shares. The broker fixtures come from the project's own pytest plugin."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def own_address_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep a developer's own PENSTOCK_BOOTSTRAP from sending a test to a broker that is in use."""
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    yield
