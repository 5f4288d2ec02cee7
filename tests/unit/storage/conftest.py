"""Index files in unit tests of the storage: their logs are small, but are treated like large ones."""

import pytest


@pytest.fixture(autouse=True)
def small_size_max(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save and load derived files of segments of any size; test_small_logs.py tests small ones."""
    monkeypatch.setattr("penstock.storage.segment.SMALL_SIZE_MAX", 0)
