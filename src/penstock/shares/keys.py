"""The key of a share partition as FindCoordinator spells it: `group:topic id:partition`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from functools import lru_cache
from typing import Final
from uuid import UUID

from penstock.shares.states import SharePartitionKey

KEYS_KEPT: Final = 1 << 12


@lru_cache(KEYS_KEPT)
def coordinator_key(key: SharePartitionKey) -> str:
    topic_id = urlsafe_b64encode(key.topic_id.bytes).rstrip(b"=").decode()
    return f"{key.group}:{topic_id}:{key.partition}"


def parse_key(text: str) -> SharePartitionKey | None:
    """Return the key, or None if the text is not one. The group may contain colons."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3:
        return None
    group, topic_id, partition = parts
    try:
        decoded = urlsafe_b64decode(topic_id + "==")
        if len(decoded) != 16 or not group:
            return None
        return SharePartitionKey(group, UUID(bytes=decoded), int(partition))
    except (Base64Error, ValueError):
        return None
