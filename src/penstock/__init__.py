"""Penstock: a durable, replicated log that speaks Kafka's protocol.

Start reading at `node.py`, which builds every part of a node, or at `docs/internals/`, which follows one request
through the packages.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
