"""Connections that outlive a task: Spark uses its Python processes again, and opening anew costs a small task dearly.

A cluster is taken out while somebody uses it, so nobody shares one. What was learnt of topics is forgotten between two
users, because it may be old by then; where the coordinators are is found out again when one of them refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark_penstock.protocol.cluster import Cluster

_idle: Final[dict[Hashable, Cluster]] = {}


@contextmanager
def kept(key: Hashable, make: Callable[[], Cluster]) -> Iterator[Cluster]:
    """The idle cluster of this key, or a new one. After a fault it is closed and not kept."""
    cluster = _idle.pop(key, None) or make()
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    cluster.rest()
    surplus = _idle.pop(key, None)
    if surplus is not None:
        surplus.close()
    _idle[key] = cluster
