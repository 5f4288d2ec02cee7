"""penstock consume: records out as lines.

Belongs to no group and commits nothing: every partition is assigned by hand. Without --follow
it reads up to the end that it found at the start and then stops.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    client_settings,
    explain,
)
from penstock.cli.errors import CommandError
from penstock.actions.positions import AtOffset, AtTime, Earliest, Last, Latest, Position, parse_position
from penstock.actions.record_format import Headers, LineFormat, LineRecord, TextShape, render_json_line, render_text_line

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

EXAMPLE = "Example: penstock consume orders --from 5m --follow --format json"
POLL_S = 0.2


class Isolation(StrEnum):
    """Whether records of open and aborted transactions are shown."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.", show_default=False)],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, an offset (42), the last ten (-10), a time ago (5m), a moment (2026-01-31T12:00).",
        ),
    ] = "earliest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end; Ctrl-C ends.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Read only this one; repeatable.")
    ] = None,
    format: Annotated[
        LineFormat, typer.Option("--format", help="text: the value. json: an object with everything.")
    ] = LineFormat.TEXT,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print the key before the value.")] = False,
    key_separator: Annotated[
        str, typer.Option("--key-separator", metavar="TEXT", help="What to print after the key.", show_default="a tab")
    ] = "\t",
    headers: Annotated[bool, typer.Option("--headers", "-H", help="Print the headers before the value.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", "-t", help="Print the time before the value.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", "-o", help="Print partition:offset before the value.")] = False,
    isolation: Annotated[
        Isolation, typer.Option("--isolation", help="Leave out open and aborted transactions, or show all.")
    ] = Isolation.COMMITTED,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the records of a topic, without joining a group."""
    position = parse_position(start, now_ms=int(time.time() * 1000))
    shape = TextShape(keys, headers, timestamps, offsets, key_separator)
    consumer = open_consumer(bootstrap, isolation)
    out = sys.stdout.buffer
    try:
        reader = Reader(consumer, topic, partition, position, follow=follow)
        for records in reader.batches(count):
            for record in records:
                out.write(render_json_line(record) if format is LineFormat.JSON else render_text_line(record, shape))
            out.flush()
    except KeyboardInterrupt:
        # The only way to end --follow, so not an error.
        pass
    finally:
        consumer.close()


def open_consumer(bootstrap: str, isolation: Isolation, given: Mapping[str, str] | None = None) -> "Consumer":
    """Open a consumer that is assigned by hand; `given` are client properties other than the command's."""
    from confluent_kafka import Consumer

    return Consumer(
        client_settings(
            bootstrap,
            given,
            **{
                # librdkafka asks for a name, but nothing joins or commits under it.
                "group.id": "penstock-cli",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": isolation.value,
                "fetch.wait.max.ms": 500,
            },
        )
    )


class Reader:
    """Knows where each partition begins and, unless it follows, where it ends."""

    def __init__(
        self, consumer: "Consumer", topic: str, wanted: Sequence[int] | None, position: Position, *, follow: bool
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._follow = follow
        self._open: set[int] = set()
        self.partitions = self._partitions(wanted)
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        for index in self.partitions:
            self._starts[index], self._ends[index] = self._range(index, position)

    def begin_at(self, offsets: Mapping[int, int]) -> None:
        """Begin these partitions no earlier than here."""
        for index, offset in offsets.items():
            self._starts[index] = max(self._starts[index], min(offset, self._ends[index]))

    def batches(self, count: int | None) -> Iterator[list[LineRecord]]:
        """Yield records as they come, until the count or the ends are reached."""
        from confluent_kafka import TopicPartition

        self._open = {index for index in self.partitions if self._follow or self._starts[index] < self._ends[index]}
        if not self._open:
            return
        self._consumer.assign([TopicPartition(self._topic, index, self._starts[index]) for index in sorted(self._open)])
        left = count
        while self._open and (left is None or left > 0):
            first = self._consumer.poll(POLL_S)
            if first is None:
                continue
            # One poll waits, then whatever else is at hand comes along without waiting.
            messages = [first, *self._consumer.consume(500 if left is None else min(left, 500), timeout=0)]
            records = [record for message in messages if (record := self._take(message)) is not None]
            if left is not None:
                records = records[:left]
                left -= len(records)
            yield records

    def _take(self, message: "Message") -> LineRecord | None:
        index = message.partition()
        error = message.error()
        if error is not None:
            if error.name() != "_PARTITION_EOF":
                raise CommandError(explain(error, about=f"{self._topic}-{index}"))
            if not self._follow:
                self._open.discard(int(index or 0))
            return None
        assert index is not None, "a message without an error has a partition"
        offset = message.offset()
        assert offset is not None, "a message without an error has an offset"
        if not self._follow:
            if offset >= self._ends[index] - 1:
                self._open.discard(index)
            if offset >= self._ends[index]:
                return None
        _, timestamp = message.timestamp()
        return LineRecord(
            key=_bytes(message.key()),
            value=_bytes(message.value()),
            headers=_headers(message.headers()),
            timestamp_ms=None if timestamp < 0 else timestamp,
            partition=index,
            offset=offset,
            topic=self._topic,
        )

    def _partitions(self, wanted: Sequence[int] | None) -> list[int]:
        found = self._consumer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S).topics[self._topic]
        if found.error is not None:
            raise CommandError(explain(found.error, about=self._topic))
        there = sorted(found.partitions)
        for index in wanted or []:
            if index not in there:
                raise CommandError(f"{self._topic} has no partition {index}: it has {there[0]} to {there[-1]}.")
        return sorted(set(wanted)) if wanted else there

    def _range(self, index: int, position: Position) -> tuple[int, int]:
        """Return the offset to begin with and the present end."""
        from confluent_kafka import TopicPartition

        where = TopicPartition(self._topic, index)
        low, high = self._consumer.get_watermark_offsets(where, timeout=REQUEST_TIMEOUT_S)
        match position:
            case Earliest():
                return low, high
            case Latest():
                return high, high
            case Last(how_many):
                return max(low, high - how_many), high
            case AtOffset(offset):
                if not low <= offset <= high:
                    raise CommandError(
                        f"Offset {offset} is outside {self._topic}-{index}, which holds {low} to {high - 1}: "
                        "choose one of those, or --from earliest."
                    )
                return offset, high
            case AtTime(timestamp_ms):
                asked = TopicPartition(self._topic, index, timestamp_ms)
                found = self._consumer.offsets_for_times([asked], timeout=REQUEST_TIMEOUT_S)[0]
                if found.error is not None:
                    raise CommandError(explain(found.error, about=f"{self._topic}-{index}"))
                return (found.offset if found.offset >= 0 else high), high


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _headers(headers: Any) -> Headers:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, _bytes(value)) for name, value in pairs]
