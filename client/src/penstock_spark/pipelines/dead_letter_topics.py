"""The dead-letter topics of a pipeline: created if they are missing, and as wide as the topics that it reads.

A dead letter is the source record with a few headers more. A topic that accepts only smaller records than the source
would reject it, and stop the pipeline.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from penstock_client.errors import PenstockClientError
from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.topic_limits import OPTION, describe_limits, raise_limits

SUFFIX: Final = ".dlq"
HEADERS_SIZE_MAX: Final = 64 * 1024
"""As in penstock.worker: how much larger than its source record a dead letter may be."""

logger = logging.getLogger(__name__)


def prepare(cluster: Cluster, names: Collection[str], subscriptions: Collection[str]) -> None:
    """Create missing dead-letter topics, and raise the limit of those that are too narrow for the sources."""
    topics = cluster.refresh(None)
    limits = describe_limits(cluster, sorted({*_sources(subscriptions, topics), *(set(names) & set(topics))}))
    sources = [limit for name, limit in limits.items() if name not in names]
    needed = max(sources, default=0) + HEADERS_SIZE_MAX if sources else 0
    for name in sorted(set(names) - set(topics)):
        configs = {OPTION: str(needed)} if needed else {}
        cluster.create_topic(name, partitions=1, replicas=-1, configs=configs)
    narrow = {name: needed for name in names if limits.get(name, needed) < needed}
    if narrow:
        try:
            raise_limits(cluster, narrow)
        except PenstockClientError as error:
            logger.warning("dead letters of large records will be rejected: %s", error)


def _sources(subscriptions: Collection[str], topics: Collection[str]) -> set[str]:
    """Return the topics of subscriptions; all topics if one is a pattern or an assignment."""
    names = {name.strip() for text in subscriptions for name in text.split(",") if name.strip()}
    return names if names <= set(topics) else {name for name in topics if not name.endswith(SUFFIX)}
