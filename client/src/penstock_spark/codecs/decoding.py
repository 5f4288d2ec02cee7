"""The codec protocol, and the function that adds decoded columns to rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Codec(Protocol):
    """Decoder of a binary column into a struct of `data` and `error`, one of which is null."""

    def decode(self, value: Column) -> Column: ...


def decoded(
    frame: DataFrame, codec: Codec, *, column: str = "value", rules: Mapping[str, str] | None = None, count: str = ""
) -> DataFrame:
    """Add the columns `data` and `error`.

    `rules` maps error messages to SQL conditions on `data` that must hold, as in
    {"the amount is not positive": "data.amount > 0"}. With `count`, Spark's progress reports the numbers of decoded and
    of bad rows under this name.
    """
    from pyspark.sql import functions as f

    both = frame.withColumn("__decoded", codec.decode(f.col(column)))
    rows = both.withColumns({"data": f.col("__decoded.data"), "error": f.col("__decoded.error")}).drop("__decoded")
    for words, condition in (rules or {}).items():
        # A null condition counts as a violation: rows that are not known to be good need a person to look at them.
        broken = f.col("error").isNull() & ~f.coalesce(f.expr(condition), f.lit(False))
        rows = rows.withColumn("error", f.when(broken, f.lit(f"RuleBroken: {words}")).otherwise(f.col("error")))
    if count:
        rows = rows.observe(count, f.count(f.lit(1)).alias("read"), f.count(f.col("error")).alias("bad"))
    return rows


def accepted(rows: DataFrame, *keep: str) -> DataFrame:
    """Return the columns of good values, and the named columns of the source."""
    return rows.where("error IS NULL").select("data.*", *keep)
