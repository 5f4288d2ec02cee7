"""What happens to an order, said once: the stream and the backfill both call these functions.

Frames in, frames out. Nothing here knows where rows come from or go to.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock_spark.codecs import Json, accepted, decoded

ORDER = "order_id STRING, customer_id STRING, amount DOUBLE, at TIMESTAMP"
CUSTOMER = "name STRING, country STRING"
# An order may come this late and still count; after that its window is closed.
LATENESS = "15 seconds"
WINDOW = "10 seconds"


def parsed(orders: DataFrame, *, count: str = "") -> DataFrame:
    """Orders as columns; what is not an order gets an `error`."""
    codec = Json(ORDER, required=["order_id", "customer_id", "amount", "at"])
    return decoded(orders, codec, rules={"the amount is not positive": "data.amount > 0"}, count=count)


def once_each(rows: DataFrame) -> DataFrame:
    """Good orders without those that were sent twice."""
    good = accepted(rows)
    if rows.isStreaming:
        return good.withWatermark("at", LATENESS).dropDuplicatesWithinWatermark(["order_id"])
    return good.dropDuplicates(["order_id"])


def latest_customers(records: DataFrame) -> DataFrame:
    """The table that a compacted topic holds: the last value of every key."""
    newest = records.groupBy("key").agg(f.max_by("value", f.struct("partition", "offset")).alias("value"))
    there = newest.where("value IS NOT NULL").withColumn("customer_id", f.col("key").cast("string"))
    data = f.from_json(f.col("value").cast("string"), CUSTOMER)
    return there.withColumn("data", data).select("customer_id", "data.*")


def with_customers(orders: DataFrame, customers: DataFrame) -> DataFrame:
    joined = orders.join(f.broadcast(customers), "customer_id", "left")
    return joined.withColumn("country", f.coalesce("country", f.lit("unknown")))


def sales(orders: DataFrame) -> DataFrame:
    """Orders and money by country and window."""
    grouped = orders.groupBy(f.window("at", WINDOW), "country")
    totals = grouped.agg(f.count(f.lit(1)).alias("orders"), f.round(f.sum("amount"), 2).alias("amount"))
    return totals.select(
        f.col("window.start").alias("from"), f.col("window.end").alias("to"), "country", "orders", "amount"
    )


def as_record(frame: DataFrame, key: str, *columns: str) -> DataFrame:
    """Key and JSON value, for a topic."""
    names: list[Column] = [f.col(name) for name in (columns or frame.columns)]
    return frame.select(f.col(key).alias("key"), f.to_json(f.struct(*names)).alias("value"))
