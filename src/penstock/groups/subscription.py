"""The topics in a consumer's subscription, which is all that the coordinator reads of it.

All versions of the embedded consumer protocol begin with a version and the topics.
Pure; returns None for bytes in any other format.
"""

from collections.abc import Iterable
from struct import Struct, error

_INT16 = Struct(">h").unpack_from
_INT32 = Struct(">i").unpack_from

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return every topic of the subscriptions, or None if one of them cannot be parsed."""
    topics: set[str] = set()
    for subscription in subscriptions:
        named = _topics(subscription)
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def _topics(subscription: bytes) -> list[str] | None:
    try:
        (version,) = _INT16(subscription, 0)
        (count,) = _INT32(subscription, 2)
        position = 6
        if version < 0 or not 0 <= 2 * count <= len(subscription) - position:
            return None
        topics = []
        for _ in range(count):
            (size,) = _INT16(subscription, position)
            position += 2
            if not 0 <= size <= len(subscription) - position:
                return None
            topics.append(subscription[position : position + size].decode())
            position += size
    except (error, UnicodeDecodeError):
        return None
    return topics
