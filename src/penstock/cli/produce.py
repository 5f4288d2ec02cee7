"""penstock produce: lines in, records out.

Reads as fast as the client library's queue takes records, so a file of any size needs little
memory. Ends with exit code 1 if any record was not acknowledged, and says how many.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Self

import typer

from penstock.actions.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    client_settings,
    explain,
    parse_pairs,
)
from penstock.cli.errors import CommandError
from penstock.cli.progress import Progress
from penstock.actions.record_format import LineFormat, LineRecord, parse_json_line, parse_text_line

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

EXAMPLE = "Example: printf 'k1:hello\\nk2:world\\n' | penstock produce orders --key-separator :"
PROBLEMS_KEPT_MAX = 3


class Codec(StrEnum):
    """The codecs of record batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Whose word to wait for."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.", show_default=False)],
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help="What stands before it in a line is the key."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="One key for all records.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for all records; repeatable."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read this file and not standard input.", dir_okay=False)
    ] = None,
    format: Annotated[
        LineFormat,
        typer.Option("--format", help="text: a line is a value. json: a line is what consume prints as JSON."),
    ] = LineFormat.TEXT,
    codec: Annotated[Codec, typer.Option("--codec", "-z", help="How to compress batches.")] = Codec.NONE,
    acks: Annotated[
        Acks, typer.Option("--acks", help="all: durable and replicated. 1: written by the leader. 0: do not ask.")
    ] = Acks.ALL,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Write to this one.", show_default="by key")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Write lines from standard input or a file as records."""
    if key is not None and key_separator is not None:
        raise CommandError("--key and --key-separator contradict each other: give one of them.")
    if key_separator == "":
        raise CommandError("--key-separator must not be empty: give the text that ends a key, for example ':'.")
    headers = [
        (name, value.encode()) for name, value in parse_pairs(header or [], option="--header source=shell").items()
    ]
    settings = _producer_settings(codec, acks)
    separator = key_separator.encode() if key_separator else None
    with _open(file) as source:
        progress = Progress("writing", total=_size(source, file), shown=not quiet and not source.isatty())
        if source.isatty() and not quiet:
            print(f"One record a line to {topic}; Ctrl-D ends.", file=sys.stderr)
        writer = _Writer(client_settings(bootstrap, **settings), topic)
        with progress, contextlib.suppress(KeyboardInterrupt), writer:
            for record, line_size in _records(source, format, separator):
                writer.write(
                    record._replace(
                        key=key.encode() if key is not None else record.key,
                        headers=[*record.headers, *headers],
                        partition=partition if partition is not None else record.partition,
                    )
                )
                progress.advance(line_size, done=writer.sent)
    if not quiet:
        print(f"{writer.sent - writer.failed} records written to {topic}", file=sys.stderr)


def _producer_settings(codec: Codec, acks: Acks) -> dict[str, object]:
    return {
        "compression.type": codec.value,
        "acks": acks.value,
        # Without it a retry after a lost answer could write a line twice or out of order.
        "enable.idempotence": acks is Acks.ALL,
        "linger.ms": 5,
        "queue.buffering.max.messages": 200_000,
        "delivery.report.only.error": True,
        "message.timeout.ms": int(REQUEST_TIMEOUT_S * 2 * 1000),
    }


def _open(file: Path | None) -> AbstractContextManager[BinaryIO]:
    if file is None:
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise CommandError(f"{file} cannot be read ({error.strerror}): check the path given to --file.") from None


def _size(source: BinaryIO, file: Path | None) -> int | None:
    return None if file is None else os.fstat(source.fileno()).st_size


def _records(source: BinaryIO, format: LineFormat, key_separator: bytes | None) -> Iterator[tuple[LineRecord, int]]:
    for number, raw in enumerate(source, start=1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if format is LineFormat.JSON and not line.strip():
            continue
        try:
            if format is LineFormat.JSON:
                yield parse_json_line(line), len(raw)
            else:
                yield parse_text_line(line, key_separator=key_separator), len(raw)
        except CommandError as error:
            raise CommandError(f"Line {number}: {error}.") from None


class _Writer:
    """Hands records to the client library and remembers what became of them.

    Leaving it waits for all that was handed over, whatever ended the reading: a bad line in the
    middle must not take the good ones before it along.
    """

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(settings)
        self._topic = topic
        self._problems: list[str] = []
        self.sent = 0
        self.failed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def write(self, record: LineRecord) -> None:
        optional: dict[str, Any] = {}
        if record.partition is not None:
            optional["partition"] = record.partition
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers) or None,
                    on_delivery=self._delivered,
                    **optional,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        if self.sent % 1000 == 0:
            self._producer.poll(0)

    def _delivered(self, error: "KafkaError | None", message: object) -> None:
        if error is not None:
            self.failed += 1
            if len(self._problems) < PROBLEMS_KEPT_MAX:
                text = explain(error, about=self._topic)
                if text not in self._problems:
                    self._problems.append(text)

    def finish(self) -> None:
        """Wait until every record is acknowledged or given up; raise if any was given up."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S * 4
        while (left := self._producer.flush(1.0)) and time.monotonic() < deadline:
            pass
        self.failed += left
        if self.failed:
            problems = " ".join(self._problems) or "no answer in time; 'penstock doctor' looks for the reason."
            raise CommandError(f"{self.failed} of {self.sent} records were not written. {problems}")
