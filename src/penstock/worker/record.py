"""What a handler is given: one record, with everything that its topic knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. `attempt` counts from 1 and tells a retry from the first try."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    attempt: int = 1

    @property
    def place(self) -> str:
        """Where the record stands, as logs and tools write it."""
        return f"{self.topic}-{self.partition}@{self.offset}"


def from_message(message: Message) -> Record:
    """Take over what confluent-kafka delivered; only for messages without an error."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "a delivered message has a place"
    _, timestamp_ms = message.timestamp()
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=message.value(),
        headers=header_pairs(message.headers()),
        timestamp_ms=timestamp_ms if timestamp_ms >= 0 else None,
    )


def header_pairs(headers: Any) -> Headers:
    """Return headers in their order; names may repeat."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
