"""The differences between two images, computed without the records in between: after loading a leader's snapshot.

Pure. Refuses nothing.
"""

from collections.abc import Mapping
from typing import Any

from penstock.metadata.delta import Delta
from penstock.metadata.image import Image, TopicImage


def difference(before: Image, after: Image) -> Delta:
    """Return the delta from one image to a later one."""
    created = tuple(topic for topic in after.topics_by_id.values() if topic.id not in before.topics_by_id)
    deleted = tuple(topic for topic in before.topics_by_id.values() if topic.id not in after.topics_by_id)
    partitions = {topic.id: frozenset(range(len(topic.partitions))) for topic in created}
    changed = []
    for topic in after.topics_by_id.values():
        old = before.topics_by_id.get(topic.id)
        if old is not None and old != topic:
            changed.append(topic)
            partitions[topic.id] = _changed_partitions(old, topic)
    return Delta(
        before=before,
        topics_created=created,
        topics_deleted=deleted,
        topics_changed=tuple(changed),
        partitions_changed=partitions,
        configs_changed=_changed_keys(before.configs, after.configs),
        features_changed=_changed_keys(before.features, after.features),
        quotas_changed=_changed_keys(before.quotas, after.quotas),
        credentials_changed=_changed_keys(before.credentials, after.credentials),
        acls_changed=_changed_keys(before.acls, after.acls),
        brokers_changed=_changed_keys(before.brokers, after.brokers),
    )


def _changed_partitions(before: TopicImage, after: TopicImage) -> frozenset[int]:
    old = before.partitions
    return frozenset(
        index for index, partition in enumerate(after.partitions) if index >= len(old) or old[index] != partition
    )


def _changed_keys(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> frozenset[Any]:
    return frozenset(key for key in (*before, *after) if before.get(key) != after.get(key))
