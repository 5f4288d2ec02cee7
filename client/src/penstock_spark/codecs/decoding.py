"""What a codec is, and how its result joins the rows that it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Codec(Protocol):
    """Makes of a binary column a struct of `data` and `error`, one of which is null."""

    def decode(self, value: Column) -> Column: ...


def decoded(
    frame: DataFrame, codec: Codec, *, column: str = "value", rules: Mapping[str, str] | None = None, count: str = ""
) -> DataFrame:
    """Add `data` and `error`.

    `rules` are SQL conditions on `data` by the words to use where one does not hold, as in
    {"the amount is not positive": "data.amount > 0"}. With `count`, Spark's progress tells how many rows were read
    and how many were bad, under this name.
    """
    from pyspark.sql import functions as f

    both = frame.withColumn("__decoded", codec.decode(f.col(column)))
    rows = both.withColumns({"data": f.col("__decoded.data"), "error": f.col("__decoded.error")}).drop("__decoded")
    for words, condition in (rules or {}).items():
        # A condition that is null does not hold: what is not known to be good goes to a person.
        broken = f.col("error").isNull() & ~f.coalesce(f.expr(condition), f.lit(False))
        rows = rows.withColumn("error", f.when(broken, f.lit(f"RuleBroken: {words}")).otherwise(f.col("error")))
    if count:
        rows = rows.observe(count, f.count(f.lit(1)).alias("read"), f.count(f.col("error")).alias("bad"))
    return rows


def accepted(rows: DataFrame, *keep: str) -> DataFrame:
    """The columns of good values, and those of the source that are named."""
    return rows.where("error IS NULL").select("data.*", *keep)
