"""penstock consume: print records as lines."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.connection import Connection
from penstock.actions.format_string import FormatString
from penstock.actions.group_reader import GroupReader, open_group_consumer
from penstock.actions.positions import Earliest, Latest, Position, parse_position
from penstock.actions.record_format import LineFormat, LineRecord, TextLayout, render_json_line, render_text_line
from penstock.actions.terminal_text import escape_for_terminal, escape_json_for_terminal
from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer
from penstock.cli.completion import complete_group, complete_topic
from penstock.cli.errors import CommandError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from penstock.sqlview.isolated import RecordFilter

EXAMPLE = "Example: penstock consume orders --from 5m --follow -f '%p:%o %k=%s\\n'"
FILTER_TIMEOUT_S = 60.0
FILTER_MEMORY_BYTES = 1024 * 1024 * 1024

Render = Callable[[LineRecord], bytes]
Select = Callable[[Sequence[LineRecord]], Sequence[LineRecord]]


def consume(
    connection: Connection,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic to read.", show_default=False, autocompletion=complete_topic)
    ],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="earliest, latest, an offset (42), the last N (-10), an age (5m), or a time (2026-01-31T12:00).",
        ),
    ] = "earliest",
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Wait for new records until Ctrl-C.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Stop after printing N records.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition. Repeatable.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            autocompletion=complete_group,
            help="Join this group and commit what was printed; --from applies where it has no committed offset.",
        ),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="REGEX", help="Only records with a match (RE2 syntax) in the key or value."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Only records that fulfil a condition on the columns of topic() in 'penstock sql'.",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="text|json|FORMAT",
            help="Print values as text, records as JSON objects, or a format string with kcat's directives: "
            "%t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp, %K and %S sizes.",
        ),
    ] = "text",
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
    """Print the records of a topic. Joins no group unless --group is given.

    On a terminal, bytes that are not printable text are shown as \\\\xNN. A pipe or file gets them unchanged.
    """
    position = parse_position(start, now_ms=int(time.time() * 1000))
    layout = TextLayout(keys, headers, timestamps, offsets, key_separator)
    render = choose_rendering(format, layout, is_terminal=sys.stdout.isatty())
    select = _selection(grep, where)
    if group is None:
        with contextlib.closing(open_consumer(connection, isolation)) as consumer:
            reader = TopicReader(consumer, topic, partition, position, follow=follow)
            is_filtered = grep is not None or where is not None
            _print(reader.batches(None if is_filtered else count), select, render, count)
        return
    if partition:
        raise CommandError("--group and --partition cannot be combined: the group assigns the partitions.")
    with contextlib.closing(_open_member(connection, group, position, start, isolation)) as consumer:
        member = GroupReader(consumer, topic, follow=follow)
        _print(member.batches(), select, render, count, done=lambda records: member.commit(next_offsets(records)))
        if member.has_joined and not member.owns_partitions:
            print(f"Other members of group '{group}' own all partitions of {topic}.", file=sys.stderr)


def choose_rendering(format: str, layout: TextLayout, *, is_terminal: bool) -> Render:
    """Return the function that renders a record in a format: text, json or a format string."""
    shield = escape_for_terminal if is_terminal else bytes
    if format == LineFormat.TEXT:
        return lambda record: render_text_line(record, layout, shield)
    if format == LineFormat.JSON:
        if is_terminal:
            return lambda record: escape_json_for_terminal(render_json_line(record))
        return render_json_line
    if "%" not in format:
        raise CommandError(
            f"Invalid format '{format}': expected text, json or a format string such as '%k %s\\n'. "
            "To wait for new records, use --follow (-F)."
        )
    if layout.keys or layout.headers or layout.timestamps or layout.offsets:
        raise CommandError("A format string cannot be combined with -k, -H, -t or -o. Use %k, %h, %T, %p and %o in it.")
    parsed = FormatString(format)
    return lambda record: parsed.render(record, shield)


def _open_member(
    connection: Connection, group: str, position: Position, start: str, isolation: Isolation
) -> "Consumer":
    if not group:
        raise CommandError("--group is empty. Pass the name of a group.")
    if not isinstance(position, Earliest | Latest):
        raise CommandError(
            f"Cannot start a group at '{start}': --from must be earliest or latest with --group. "
            "'penstock group reset' moves the offsets of a group."
        )
    return open_group_consumer(connection, group, position, isolation)


def _print(
    batches: Iterator[list[LineRecord]],
    select: Select,
    render: Render,
    count: int | None,
    *,
    done: Callable[[Sequence[LineRecord]], None] = lambda records: None,
) -> None:
    """Print the selected records; call `done` with the records up to the last one that was used."""
    out, printed = sys.stdout.buffer, 0
    # Ctrl-C is the only way to end --follow, so not an error.
    with contextlib.suppress(KeyboardInterrupt):
        for records in batches:
            used, selected = records, select(records)
            if count is not None and printed + len(selected) >= count:
                selected = selected[: count - printed]
                used = records[: records.index(selected[-1]) + 1]
            for record in selected:
                out.write(render(record))
            out.flush()
            printed += len(selected)
            done(used)
            if printed == count:
                return


def next_offsets(records: Sequence[LineRecord]) -> dict[int, int]:
    """Return the offset after the last record of each partition."""
    found: dict[int, int] = {}
    for record in records:
        assert record.partition is not None and record.offset is not None, "the record was read from a log"
        found[record.partition] = record.offset + 1
    return found


def _selection(grep: str | None, where: str | None) -> Select:
    """Return the function that leaves out what --grep and --where exclude."""
    matches = None
    if grep is not None:
        from penstock.actions.record_filter import grep as compile_pattern

        matches = compile_pattern(grep)
    fulfilling = None if where is None else _sql_filter(where)

    def select(records: Sequence[LineRecord]) -> Sequence[LineRecord]:
        chosen = records if matches is None else [record for record in records if matches(record)]
        if fulfilling is None or not chosen:
            return chosen
        return [chosen[index] for index in fulfilling([_columns(record) for record in chosen])]

    return select


def _sql_filter(where: str) -> "RecordFilter":
    from penstock.sqlview.isolated import open_filter

    return open_filter(where, timeout_s=FILTER_TIMEOUT_S, memory_bytes=FILTER_MEMORY_BYTES)


def _columns(record: LineRecord) -> tuple[Any, ...]:
    return (
        record.topic, record.partition, record.offset, record.timestamp_ms, record.timestamp_type, record.key,
        record.value, list(record.headers),
    )  # fmt: skip
