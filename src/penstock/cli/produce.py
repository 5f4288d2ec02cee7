"""penstock produce: write lines as records.

Reads no faster than the client library sends, so a file of any size needs little memory. Exits with code 1 if a
record was not acknowledged.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.actions.plurals import count_of
from penstock.actions.record_format import LineFormat, LineRecord, parse_json_line, parse_text_line
from penstock.actions.topic_writer import TopicWriter
from penstock.cli.arguments import parse_pairs
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CommandError
from penstock.cli.progress import Progress

EXAMPLE = "Example: printf 'k1:hello\\nk2:world\\n' | penstock produce orders --key-separator :"


class Codec(StrEnum):
    """Compression codecs of record batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Which replicas must acknowledge a record."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


def produce(
    connection: Connection,
    topic: Annotated[
        str,
        typer.Argument(metavar="TOPIC", help="Topic to write to.", show_default=False, autocompletion=complete_topic),
    ],
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-k", metavar="TEXT", help="Text that ends the key in each line."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Key of all records.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records. Repeatable."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read this file instead of standard input.", dir_okay=False)
    ] = None,
    format: Annotated[
        LineFormat,
        typer.Option("--format", help="Read each line as a value, or as a JSON object as printed by consume."),
    ] = LineFormat.TEXT,
    codec: Annotated[Codec, typer.Option("--codec", "-z", help="Compression codec.")] = Codec.NONE,
    acks: Annotated[
        Acks,
        typer.Option("--acks", help="Wait for all in-sync replicas, for the leader only (1), or for none (0)."),
    ] = Acks.ALL,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Write to this partition.", show_default="by key")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor a summary.")] = False,
) -> None:
    """Write lines of standard input or a file as records."""
    if key is not None and key_separator is not None:
        raise CommandError("--key and --key-separator cannot be combined. Pass one of them.")
    if key_separator == "":
        raise CommandError("--key-separator must not be empty. Pass the text that ends a key, for example ':'.")
    headers = [
        (name, value.encode()) for name, value in parse_pairs(header or [], example="--header source=shell").items()
    ]
    separator = key_separator.encode() if key_separator else None
    with _open(file) as source:
        progress = Progress("writing", total=_size(source, file), shown=not quiet and not source.isatty())
        if source.isatty() and not quiet:
            print(f"Type one record per line for {topic}; Ctrl-D ends.", file=sys.stderr)
        writer = TopicWriter(connection, topic, codec=codec.value, acks=acks.value, on_stall=_print_stall)
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
        print(f"{count_of(writer.sent - writer.failed, 'record')} written to {topic}", file=sys.stderr)


def _print_stall(why: str) -> None:
    print(f"penstock: waiting: {why}", file=sys.stderr, flush=True)


def _open(file: Path | None) -> AbstractContextManager[BinaryIO]:
    if file is None:
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise CommandError(f"Cannot read {file}: {error.strerror}. Check the path passed with --file.") from None


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
        except ActionError as error:
            raise CommandError(f"Line {number}: {error}") from None
