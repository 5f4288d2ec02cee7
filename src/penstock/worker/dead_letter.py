"""Encoding of dead letters: headers about the failure, appended to those of the record.

Key and value are unchanged. `read` reverses it, also for a letter that failed twice: only the last group of headers
is removed. No I/O; `letter_writer.py` sends the result.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.worker.record import Headers, Record

PREFIX = "penstock.dlq."
# The first header of a group; its last occurrence is where the record's own headers end.
FIRST = PREFIX + "source.topic"
MESSAGE_SIZE_MAX = 2048
TRACE_SIZE_MAX = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Why and when a record was given up, and where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    error_class: str
    error_message: str
    trace: str
    attempts: int
    first_failure_ms: int
    last_failure_ms: int
    group: str


def describe(
    record: Record, error: BaseException, *, attempts: int, first_failure_ms: int, last_failure_ms: int, group: str
) -> Death:
    """Describe the failure of a record for a dead letter."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Death(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        error_class=name,
        error_message=_cut_end(words_of(error), MESSAGE_SIZE_MAX),
        trace=_cut_begin("".join(traceback.format_exception(error)), TRACE_SIZE_MAX),
        attempts=attempts,
        first_failure_ms=first_failure_ms,
        last_failure_ms=last_failure_ms,
        group=group,
    )


def words_of(error: BaseException) -> str:
    """Return the error's message. An error whose __str__ fails must not prevent the dead letter."""
    try:
        return str(error)
    except Exception as failure:
        return f"({type(error).__name__}: no message, str() raised {type(failure).__name__})"


def write(headers: Headers, death: Death) -> list[tuple[str, str | bytes | None]]:
    """Return the record's headers followed by those of its failure."""
    words: list[tuple[str, str | int | None]] = [
        ("source.topic", death.topic),
        ("source.partition", death.partition),
        ("source.offset", death.offset),
        ("source.timestamp", death.timestamp_ms),
        ("error.class", death.error_class),
        ("error.message", death.error_message),
        ("error.trace", death.trace),
        ("attempts", death.attempts),
        ("first.failure", death.first_failure_ms),
        ("last.failure", death.last_failure_ms),
        ("group", death.group),
    ]
    block = [(PREFIX + name, None if word is None else str(word).encode("utf-8", "replace")) for name, word in words]
    return [*headers, *block]


def read(headers: Headers) -> tuple[Headers, Death] | None:
    """Split headers into the record's own and its failure; return None if this is not a dead letter of a worker."""
    first = max((index for index, (name, _) in enumerate(headers) if name == FIRST), default=None)
    if first is None:
        return None
    block = {name.removeprefix(PREFIX): value for name, value in headers[first:] if name.startswith(PREFIX)}

    def text(name: str) -> str:
        return (block.get(name) or b"").decode("utf-8", "replace")

    try:
        death = Death(
            topic=text("source.topic"),
            partition=int(text("source.partition")),
            offset=int(text("source.offset")),
            timestamp_ms=int(text("source.timestamp")) if block.get("source.timestamp") else None,
            error_class=text("error.class"),
            error_message=text("error.message"),
            trace=text("error.trace"),
            attempts=int(text("attempts")),
            first_failure_ms=int(text("first.failure")),
            last_failure_ms=int(text("last.failure")),
            group=text("group"),
        )
    except ValueError:
        return None
    # Headers that another tool appended after our group belong to the record.
    return _own(headers, first), death


def _own(headers: Headers, first: int) -> Sequence[tuple[str, bytes | None]]:
    return (*headers[:first], *(pair for pair in headers[first:] if not pair[0].startswith(PREFIX)))


def _cut_end(text: str, size_max: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size_max else data[:size_max].decode("utf-8", "ignore") + "..."


def _cut_begin(text: str, size_max: int) -> str:
    # The end of a trace is the most useful: it has the line that failed.
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size_max else "..." + data[-size_max:].decode("utf-8", "ignore")
