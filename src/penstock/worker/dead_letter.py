"""A dead letter as bytes: the headers that say what happened, appended behind the record's own.

Key and value stay as they were. `read` undoes it, also for a letter that died twice: only the
last block of headers is taken off. No I/O; `letter_writer.py` sends what is built here.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.worker.record import Headers, Record

PREFIX = "penstock.dlq."
# The first of the block; its last place in the headers is where the record's own end.
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
    """Put an error and a record into the words of a dead letter."""
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
    """What the error says. One that fails even at that must not keep its record from being given up."""
    try:
        return str(error)
    except Exception as failure:
        return f"({type(error).__name__} has no words for itself: {type(failure).__name__})"


def write(headers: Headers, death: Death) -> list[tuple[str, str | bytes | None]]:
    """Return the record's own headers and behind them those of its death."""
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
    """Split headers into the record's own and its death; None if this is no dead letter of ours."""
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
    # What another tool appended behind our block belongs to the record again.
    return _own(headers, first), death


def _own(headers: Headers, first: int) -> Sequence[tuple[str, bytes | None]]:
    return (*headers[:first], *(pair for pair in headers[first:] if not pair[0].startswith(PREFIX)))


def _cut_end(text: str, size_max: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size_max else data[:size_max].decode("utf-8", "ignore") + "..."


def _cut_begin(text: str, size_max: int) -> str:
    # A trace tells most at its end: there stands the line that failed.
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size_max else "..." + data[-size_max:].decode("utf-8", "ignore")
