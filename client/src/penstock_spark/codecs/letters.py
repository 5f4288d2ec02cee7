"""Bad rows as dead letters: key and value unchanged, and headers with the error and the origin.

The headers are those of penstock.worker, so that `penstock dlq` lists, filters and replays these letters too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX: Final = "penstock.dlq."
MESSAGE_CHARS_MAX: Final = 4000
"""The message may quote the record; a dead-letter topic reserves little more than the size of the record itself."""


def letters(rows: DataFrame, *, group: str, count: str = "dead_letters") -> DataFrame:
    """Return the rows with an error, for a sink of format penstock. `group` names the pipeline in the headers.

    Spark's progress reports their number under the name `count`.
    """
    from pyspark.sql import functions as f

    error = f.col("error")
    kind = f.substring_index(error, ": ", 1)
    message = f.when(f.locate(": ", error) > 0, f.expr("substring(error, locate(': ', error) + 2)")).otherwise(error)
    now = f.unix_millis(f.current_timestamp())
    words: list[tuple[str, Column]] = [
        ("source.topic", f.col("topic")),
        ("source.partition", f.col("partition")),
        ("source.offset", f.col("offset")),
        ("source.timestamp", f.unix_millis("timestamp")),
        ("error.class", kind),
        ("error.message", f.substring(message, 1, MESSAGE_CHARS_MAX)),
        ("error.trace", f.lit("")),
        ("attempts", f.lit(1)),
        ("first.failure", now),
        ("last.failure", now),
        ("group", f.lit(group)),
    ]
    block = f.array(*[_header(name, value) for name, value in words])
    if "headers" in rows.columns:
        empty = f.array().cast("array<struct<key:string,value:binary>>")
        block = f.concat(f.coalesce(f.col("headers"), empty), block)
    bad = rows.where("error IS NOT NULL").select("key", "value", block.alias("headers"))
    return bad.observe(count, f.count(f.lit(1)).alias(count)) if count else bad


def _header(name: str, value: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(f.lit(PREFIX + name).alias("key"), f.encode(value.cast("string"), "UTF-8").alias("value"))
