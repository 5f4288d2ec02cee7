"""Lake tables written exactly once: Parquet, Delta and Iceberg behind the data source `lake`."""
