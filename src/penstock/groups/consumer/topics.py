"""The topics as seen by groups: ids, partition counts, and a hash that shows changes of either.

Immutable; built from the metadata image and updated with its deltas. A change that is irrelevant
to groups (a leader, an ISR) returns the same object. The hashes are Kafka's (KIP-1101), which are
in the group's record, so that a group moved from Kafka does not rebalance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from xxhash import xxh3_64_intdigest

from penstock.metadata.delta import Delta
from penstock.metadata.image import BrokerImage, Image, TopicImage
from penstock.model.ids import NodeId

_MAGIC: Final = b"\x00"
_INT = Struct("<i").pack
_LONG = Struct("<q").pack
_UNSIGNED = Struct("<Q").pack
_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    id: UUID
    partition_count: int
    hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    by_name: Mapping[str, Topic] = field(default_factory=lambda: _NONE)
    by_id: Mapping[UUID, Topic] = field(default_factory=lambda: _NONE)
    version: int = 0
    """The metadata offset of the last change to any topic."""
    created_version: int = 0
    """The metadata offset of the last creation: only a new topic can make a regular expression match more."""

    @staticmethod
    def of(image: Image) -> "Topics":
        """Build the view of a whole image."""
        topics = [describe(topic, image.brokers) for topic in image.topics.values()]
        return Topics(
            by_name={topic.name: topic for topic in topics},
            by_id={topic.id: topic for topic in topics},
            version=image.offset,
            created_version=image.offset,
        )

    def renewed(self, delta: Delta, image: Image) -> "Topics":
        """Return the view after a delta; the same object if nothing relevant to groups has changed."""
        changed = [describe(topic, image.brokers) for topic in (*delta.topics_created, *delta.topics_changed)]
        changed = [topic for topic in changed if self.by_id.get(topic.id) != topic]
        if not changed and not delta.topics_deleted:
            return self
        by_name, by_id = dict(self.by_name), dict(self.by_id)
        for deleted in delta.topics_deleted:
            by_id.pop(deleted.id, None)
            by_name.pop(deleted.name, None)
        for topic in changed:
            # A topic may be created and deleted in the same delta, so the image decides.
            if topic.id in image.topics_by_id:
                by_name[topic.name] = by_id[topic.id] = topic
        created = image.offset if delta.topics_created else self.created_version
        return Topics(by_name=by_name, by_id=by_id, version=image.offset, created_version=created)

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of those of the topics that exist; 0 if none does."""
        found = [topic.hash for name in sorted(names) if (topic := self.by_name.get(name))]
        return _hash(b"".join(map(_LONG, found))) if found else 0

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        return frozenset(topic.id for name in names if (topic := self.by_name.get(name)))


def describe(topic: TopicImage, brokers: Mapping[NodeId, BrokerImage]) -> Topic:
    """Return a topic with its hash over its id, name, partitions, and the racks of their replicas."""
    high, low = divmod(topic.id.int, 1 << 64)
    parts = [_MAGIC, _UNSIGNED(high), _UNSIGNED(low), _text(topic.name), _INT(len(topic.partitions))]
    for index, partition in enumerate(topic.partitions):
        parts.append(_INT(index))
        replicas = (brokers.get(replica) for replica in partition.replicas)
        racks = [broker.rack for broker in replicas if broker is not None and broker.rack is not None]
        for rack in sorted(racks, key=_java_order):
            parts += (_INT(len(rack.encode("utf-16-le")) // 2), _text(rack))
    return Topic(name=topic.name, id=topic.id, partition_count=len(topic.partitions), hash=_hash(b"".join(parts)))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT(len(units) // 2)


def _java_order(text: str) -> bytes:
    """Return a sort key for Java's order, by UTF-16 code units; it differs only beyond the basic plane."""
    return text.encode("utf-16-be")


def _hash(data: bytes) -> int:
    value = xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
