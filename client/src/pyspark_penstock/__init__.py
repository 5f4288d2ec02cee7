"""The data source `penstock`, where Spark looks for it: modules named `pyspark_*` with a `DefaultSource`.

The implementation is in penstock_spark/topics/. Nothing is loaded before Spark asks for it.
"""

import sys
from typing import TYPE_CHECKING, Any

from penstock_spark.worker_exit import hush

if TYPE_CHECKING:
    from penstock_spark.topics.source import DefaultSource

__all__ = ["DefaultSource"]

hush(sys.modules["__main__"])


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock_spark.topics.source import DefaultSource

    return DefaultSource
