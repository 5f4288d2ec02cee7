"""Records of a topic as Arrow batches, read from the live log, for pandas, Polars, DuckDB and similar libraries.

    from penstock import arrow
    table = arrow.read("orders", bootstrap="localhost:9092").read_all()
    frame = arrow.read("orders", first_timestamp=midnight, columns=["key", "value"]).read_pandas()

It is an ordinary client and works with every cluster that speaks Kafka's protocol. Needs `penstock[sql]`.
"""

from penstock.arrow.reading import COLUMNS, Records, read

__all__ = ["COLUMNS", "Records", "read"]
