"""penstock consume: print records as lines."""

import sys
import time
from typing import Annotated

import typer

from penstock.actions.connection import Connection
from penstock.actions.positions import parse_position
from penstock.actions.record_format import LineFormat, TextLayout, render_json_line, render_text_line
from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer

EXAMPLE = "Example: penstock consume orders --from 5m --follow --format json"


def consume(
    connection: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.", show_default=False)],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="earliest, latest, an offset (42), the last N (-10), an age (5m), or a time (2026-01-31T12:00).",
        ),
    ] = "earliest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records until Ctrl-C.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Stop after N records.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition. Repeatable.")
    ] = None,
    format: Annotated[
        LineFormat, typer.Option("--format", help="Print values as text, or records as JSON objects.")
    ] = LineFormat.TEXT,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print the key before the value.")] = False,
    key_separator: Annotated[
        str, typer.Option("--key-separator", metavar="TEXT", help="Text between key and value.", show_default="a tab")
    ] = "\t",
    headers: Annotated[bool, typer.Option("--headers", "-H", help="Print the headers before the value.")] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Print the timestamp before the value.")
    ] = False,
    offsets: Annotated[bool, typer.Option("--offsets", "-o", help="Print PARTITION:OFFSET before the value.")] = False,
    isolation: Annotated[
        Isolation, typer.Option("--isolation", help="Skip or print records of open and aborted transactions.")
    ] = Isolation.COMMITTED,
) -> None:
    """Print the records of a topic, without joining a group."""
    position = parse_position(start, now_ms=int(time.time() * 1000))
    layout = TextLayout(keys, headers, timestamps, offsets, key_separator)
    consumer = open_consumer(connection, isolation)
    out = sys.stdout.buffer
    try:
        reader = TopicReader(consumer, topic, partition, position, follow=follow)
        for records in reader.batches(count):
            for record in records:
                out.write(render_json_line(record) if format is LineFormat.JSON else render_text_line(record, layout))
            out.flush()
    except KeyboardInterrupt:
        # The only way to end --follow, so not an error.
        pass
    finally:
        consumer.close()
