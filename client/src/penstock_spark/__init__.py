"""Spark support: lake tables, codecs, dead letters, and the runner of declarative pipelines.

Depends on penstock_client and PyPI packages. It does not import the broker, so executors need not install it.
"""
