"""Entry point of the data source `lake`: Spark looks for modules named `pyspark_*` with a `DefaultSource`.

The implementation is in penstock_spark/lake/ and is imported on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_spark.lake.source import DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock_spark.lake.source import DefaultSource

    return DefaultSource
