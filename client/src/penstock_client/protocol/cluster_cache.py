"""A cache of cluster connections that outlive a task.

Spark reuses its Python processes, and connecting again would dominate a small task. A cluster leaves the cache while
it is in use, so that two users never share one. Cached topic metadata is dropped between users because it may be
stale; coordinators are looked up again when one of them rejects a request.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock_client.protocol.cluster import Cluster

_idle: Final[dict[Hashable, Cluster]] = {}


@contextmanager
def cached_cluster(key: Hashable, make: Callable[[], Cluster]) -> Iterator[Cluster]:
    """Return the idle cluster for this key, or a new one. An exception closes the cluster instead of caching it."""
    cluster = _idle.pop(key, None) or make()
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    cluster.rest()
    # One call, because another thread may return its cluster at the same time.
    if _idle.setdefault(key, cluster) is not cluster:
        cluster.close()


def close_idle_cluster(key: Hashable) -> None:
    """Close the idle cluster of this key, for example because its user has logged out."""
    cluster = _idle.pop(key, None)
    if cluster is not None:
        cluster.close()


def close_idle_clusters() -> None:
    """Close all idle clusters; runs when the process ends, so that brokers see their connections closed in order."""
    while _idle:
        _, cluster = _idle.popitem()
        cluster.close()


atexit.register(close_idle_clusters)
