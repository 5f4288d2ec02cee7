"""The record that a handler receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. `attempt` starts at 1 and increases with each retry."""

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
        """Return topic, partition and offset as logs and tools print them."""
        return f"{self.topic}-{self.partition}@{self.offset}"


def from_message(message: Message) -> Record:
    """Convert a message of confluent-kafka, which must not be an error."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, (
        "a delivered message has topic, partition and offset"
    )
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
    """Return headers in order; names may repeat."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
