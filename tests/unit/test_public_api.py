"""The modules of the public API export what docs/public-api.md says."""

from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/public-api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("penstock", {"__version__"}),
        ("penstock.testing", {"Broker", "BrokerProcess"}),
        ("penstock.arrow", {"read", "Records", "COLUMNS"}),
        ("penstock.sqlview", {"query", "stream", "Result", "Stream"}),
    ],
)
def test_a_public_module_exports_the_documented_names(module: str, names: set[str]) -> None:
    exported = import_module(module).__all__
    assert set(exported) == names
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{module}` |")]
    assert all(f"`{name}`" in row for name in names)


@pytest.mark.parametrize("module", ["penstock.worker", "pyspark_penstock", "pyspark_penstock_lake"])
def test_everything_exported_exists(module: str) -> None:
    loaded = import_module(module)
    assert loaded.__all__
    assert all(hasattr(loaded, name) for name in loaded.__all__)
