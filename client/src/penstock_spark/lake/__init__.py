"""Lake tables with exactly-once writes: Parquet, Delta and Iceberg behind the data source `lake`."""
