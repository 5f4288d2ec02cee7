"""Penstock: a durable, replicated log that speaks Kafka's protocol.

Start reading at `node.py`, which builds every part, or at `docs/internals/`, which
follows one request through the house.
"""

__version__ = "0.1.0"
