"""Dead-letter records of share groups (KIP-1191): their headers. No I/O."""

from typing import Final

from penstock.actions.record_format import Headers, LineRecord
from penstock.worker.dead_letter import Death

PREFIX: Final = "__dlq.errors."
TOPIC_PREFIX: Final = "dlq."
"""The default of errors.deadletterqueue.topic.name.prefix."""
ERROR_CLASS: Final = "share group"
"""Stands in for the error class, because the broker does not know the consumer's error."""


def read_share_letter(record: LineRecord) -> tuple[Headers, Death] | None:
    """Split headers into the record's own and the reason; return None if no share group wrote the record."""
    block = {name.removeprefix(PREFIX): value for name, value in record.headers if name.startswith(PREFIX)}

    def text(name: str) -> str:
        return (block.get(name) or b"").decode("utf-8", "replace")

    try:
        partition, offset = int(text("partition")), int(text("offset"))
        attempts = int(text("delivery.count") or 0)
    except ValueError:
        return None
    if not text("topic"):
        return None
    at = record.timestamp_ms or 0
    death = Death(
        topic=text("topic"),
        partition=partition,
        offset=offset,
        timestamp_ms=None,
        error_class=ERROR_CLASS,
        error_message=text("message"),
        trace="",
        attempts=attempts,
        first_failure_ms=at,
        last_failure_ms=at,
        group=text("group"),
    )
    return [pair for pair in record.headers if not pair[0].startswith(PREFIX)], death


def is_pointer(record: LineRecord, death: Death) -> bool:
    """Return whether the letter only points to its source, which is the default of share groups."""
    return death.error_class == ERROR_CLASS and record.key is None and record.value is None and not record.headers
