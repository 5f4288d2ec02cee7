"""Spark on Penstock, and on any broker that speaks Kafka's protocol: source and sink, without a jar.

Spark imports every module whose name begins with `pyspark_` and takes its `DefaultSource`. docs/spark.md has
the options. Nothing of the broker is imported here: a Spark cluster needs this package alone. The client and
the decoder work without Spark too, so Spark's part is loaded when it is asked for.
"""

import sys
from typing import TYPE_CHECKING, Any

from pyspark_penstock.errors import PenstockSparkError
from pyspark_penstock.hanging_up import hush

if TYPE_CHECKING:
    from pyspark_penstock.source import DefaultSource

__all__ = ["DefaultSource", "PenstockSparkError"]

hush(sys.modules["__main__"])


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_penstock.source import DefaultSource

    return DefaultSource
