"""Differential tests: the same requests to Apache Kafka and to Penstock, with responses compared field by field.

A scenario is a small function in `catalogue/` that receives a `Session`; every request it makes becomes a step of a
transcript. `python -m tests.differential` runs all of them and prints the differences. Allowed differences are declared
in `volatile.py` (ids, times) and `differences.py` (deliberate differences, each with its reason).
"""
