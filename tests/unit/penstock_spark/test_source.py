"""The data source's class, as Spark's planning processes use it."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="the Spark parts are not installed: pip install 'penstock[spark]'")

from penstock_spark.topics.source import DefaultSource, spare_what_is_loaded


@pytest.mark.parametrize(("started_as", "times"), [("pyspark.daemon", 1), ("pytest.__main__", 0)])
def test_modules_are_spared_from_collections_once_and_only_in_processes_of_spark(
    monkeypatch: pytest.MonkeyPatch, started_as: str, times: int
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name=started_as))
    spare_what_is_loaded.cache_clear()
    source = DefaultSource({"includeHeaders": "true"})
    assert "headers" in source.schema()
    assert "headers" in source.schema()
    assert len(frozen) == times
    spare_what_is_loaded.cache_clear()
