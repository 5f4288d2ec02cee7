"""Entry point of the data source `penstock`: Spark looks for modules named `pyspark_*` with a `DefaultSource`.

The implementation is in penstock_spark/topics/ and is imported on first use.
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
