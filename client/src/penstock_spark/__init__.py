"""Pipelines with Spark: lake tables, codecs, dead letters, and the runner of declarative pipelines.

Depends on penstock_client and PyPI packages. It imports nothing of the broker, so that executors can do without it.
"""
