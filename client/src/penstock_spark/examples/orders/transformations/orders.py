"""The pipeline: reads orders; writes dead letters, a Delta table and the topic sales."""

from order_logic import as_record, latest_customers, once_each, parsed, sales, with_customers
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock_spark.codecs import letters

spark: SparkSession = SparkSession.active()


def read_orders() -> DataFrame:
    return spark.readStream.format("penstock").option("subscribe", "orders").load()


def read_customers() -> DataFrame:
    """Read the whole topic at the start of the run: it is compacted, so it stays as small as its table."""
    return latest_customers(spark.read.format("penstock").option("subscribe", "customers").load())


@dp.temporary_view
def good_orders() -> DataFrame:
    return once_each(parsed(read_orders()))


@dp.temporary_view
def customers() -> DataFrame:
    return read_customers()


@dp.temporary_view
def orders_with_customers() -> DataFrame:
    return with_customers(spark.readStream.table("good_orders"), spark.read.table("customers"))


dp.create_sink("dead_letters", "penstock", {"topic": "orders.dlq"})
dp.create_sink("orders_table", "lake", {"format": "delta", "path": "lake/orders"})
dp.create_sink("sales_topic", "penstock", {"topic": "sales"})


@dp.append_flow(target="dead_letters")
def reject() -> DataFrame:
    return letters(parsed(read_orders(), count="orders"), group="orders")


@dp.append_flow(target="orders_table")
def keep() -> DataFrame:
    return spark.readStream.table("orders_with_customers")


@dp.append_flow(target="sales_topic")
def sum_up() -> DataFrame:
    return as_record(sales(spark.readStream.table("orders_with_customers")), "country")
