"""The order logic, defined once: the stream and the backfill both call these functions.

DataFrames in, DataFrames out; sources and sinks are defined elsewhere.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock_spark.codecs import Json, accepted, decoded

ORDER = "order_id STRING, customer_id STRING, amount DOUBLE, at TIMESTAMP"
CUSTOMER = "name STRING, country STRING"
# Orders up to this late still count; after that their window is closed.
LATENESS = "15 seconds"
WINDOW = "10 seconds"


def parsed(orders: DataFrame, *, count: str = "") -> DataFrame:
    """Parse orders into columns; rows that are not orders get an `error`."""
    codec = Json(ORDER, required=["order_id", "customer_id", "amount", "at"])
    return decoded(orders, codec, rules={"the amount is not positive": "data.amount > 0"}, count=count)


def once_each(rows: DataFrame) -> DataFrame:
    """Return good orders without duplicates."""
    good = accepted(rows)
    if rows.isStreaming:
        return good.withWatermark("at", LATENESS).dropDuplicatesWithinWatermark(["order_id"])
    return good.dropDuplicates(["order_id"])


def latest_customers(records: DataFrame) -> DataFrame:
    """Return the table in a compacted topic: the last value of each key."""
    newest = records.groupBy("key").agg(f.max_by("value", f.struct("partition", "offset")).alias("value"))
    there = newest.where("value IS NOT NULL").withColumn("customer_id", f.col("key").cast("string"))
    data = f.from_json(f.col("value").cast("string"), CUSTOMER)
    return there.withColumn("data", data).select("customer_id", "data.*")


def with_customers(orders: DataFrame, customers: DataFrame) -> DataFrame:
    joined = orders.join(f.broadcast(customers), "customer_id", "left")
    return joined.withColumn("country", f.coalesce("country", f.lit("unknown")))


def sales(orders: DataFrame) -> DataFrame:
    """Sum orders and amounts by country and window."""
    grouped = orders.groupBy(f.window("at", WINDOW), "country")
    totals = grouped.agg(f.count(f.lit(1)).alias("orders"), f.round(f.sum("amount"), 2).alias("amount"))
    return totals.select(
        f.col("window.start").alias("from"), f.col("window.end").alias("to"), "country", "orders", "amount"
    )


def as_record(frame: DataFrame, key: str, *columns: str) -> DataFrame:
    """Build key and JSON value for a topic."""
    names: list[Column] = [f.col(name) for name in (columns or frame.columns)]
    return frame.select(f.col(key).alias("key"), f.to_json(f.struct(*names)).alias("value"))
