"""The same requests to Apache Kafka and to Penstock, the answers compared field by field.

A scenario is a small function in `catalogue/`, given a `Session`; every request it makes
becomes a step of a transcript. `python -m tests.differential` runs all of them and prints
what differs. What may differ is declared: `volatile.py` (ids, times) and `differences.py`
(deliberate differences, each with its reason).
"""
