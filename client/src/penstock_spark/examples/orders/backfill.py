"""The same logic as a batch over all records of the topic; writes new tables in one step.

    python backfill.py --bootstrap localhost:9092 --path /tmp/penstock-orders/backfill

Use it when the logic has changed: the new tables are created beside the old ones, so that you can compare them.
"""

from __future__ import annotations

import argparse

from order_logic import latest_customers, once_each, parsed, sales, with_customers
from pyspark.sql import DataFrame, SparkSession

from penstock_spark.session import builder


def backfill(spark: SparkSession, bootstrap: str, path: str) -> tuple[int, int]:
    """Write orders and sales as Delta tables; return the number of rows of each."""

    def read(topic: str) -> DataFrame:
        reader = spark.read.format("penstock").option("kafka.bootstrap.servers", bootstrap)
        return reader.option("subscribe", topic).load()

    def write(frame: DataFrame, name: str) -> int:
        frame.write.format("lake").option("format", "delta").mode("overwrite").save(f"{path}/{name}")
        return spark.read.format("lake").option("format", "delta").load(f"{path}/{name}").count()

    orders = with_customers(once_each(parsed(read("orders"))), latest_customers(read("customers"))).cache()
    try:
        return write(orders, "orders"), write(sales(orders), "sales")
    finally:
        orders.unpersist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT")
    parser.add_argument("--path", default="/tmp/penstock-orders/backfill", metavar="DIR")
    given = parser.parse_args()
    spark = builder("orders-backfill").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    orders, windows = backfill(spark, given.bootstrap, given.path)
    print(f"wrote {orders} orders and {windows} sales windows to {given.path}")
    spark.stop()


if __name__ == "__main__":
    main()
