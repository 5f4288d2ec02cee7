"""The records of a topic as Arrow batches, straight from the live log: for pandas, Polars, DuckDB and the like.

    from penstock import arrow
    table = arrow.read("orders", bootstrap="localhost:9092").read_all()
    frame = arrow.read("orders", first_timestamp=midnight, columns=["key", "value"]).read_pandas()

A client like any other: it works on every cluster that speaks Kafka's protocol. Needs `penstock[sql]`.
"""

from penstock.arrow.reading import COLUMNS, Records, read

__all__ = ["COLUMNS", "Records", "read"]
