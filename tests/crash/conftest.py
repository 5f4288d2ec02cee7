"""Crash tests of the storage run with and without the derived files of small logs."""

import pytest


@pytest.fixture(params=[0, 1000], ids=["indexes", "small"])
def small_size_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.segment.SMALL_SIZE_MAX", request.param)
