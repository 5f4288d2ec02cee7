"""Pipelines with Spark: lake tables, codecs, dead letters, and the runner of declarative pipelines.

Depends on penstock_client and PyPI packages only. Nothing of the broker is imported, so that executors install without it.
"""
