"""Spark on Penstock, and on any broker that speaks Kafka's protocol: source and sink, without a jar.

Spark imports every module whose name begins with `pyspark_` and takes its `DefaultSource`. docs/spark.md has
the options. Nothing of the broker is imported here: a Spark cluster needs this package alone.
"""

from pyspark_penstock.errors import PenstockSparkError
from pyspark_penstock.source import DefaultSource

__all__ = ["DefaultSource", "PenstockSparkError"]
