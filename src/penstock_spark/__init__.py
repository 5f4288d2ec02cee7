"""Pipelines with Spark: lake tables, codecs, dead letters, and the runner of declarative pipelines.

Stands on pyspark_penstock and on PyPI alone: nothing of the broker is imported, so that it installs without one.
"""
