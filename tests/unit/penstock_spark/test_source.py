"""Tests of the data source's class, as used by Spark's planning processes."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="the Spark parts are not installed: pip install 'penstock[spark]'")

from penstock_spark.topics.source import DefaultSource, exclude_modules_from_gc


@pytest.mark.parametrize(("started_as", "times"), [("pyspark.daemon", 1), ("pytest.__main__", 0)])
def test_modules_are_excluded_from_gc_once_and_only_in_spark_processes(
    monkeypatch: pytest.MonkeyPatch, started_as: str, times: int
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name=started_as))
    exclude_modules_from_gc.cache_clear()
    source = DefaultSource({"includeHeaders": "true"})
    assert "headers" in source.schema()
    assert "headers" in source.schema()
    assert len(frozen) == times
    exclude_modules_from_gc.cache_clear()
