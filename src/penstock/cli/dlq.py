"""penstock dlq: list, show and replay dead letters of penstock.worker (`<topic>.dlq`) and of share groups (`dlq.*`).

Showing joins no group and commits nothing. A replay sends nothing unless --execute is given.
"""

import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.actions.connection import Connection
from penstock.actions.plurals import count_of
from penstock.actions.positions import Earliest, parse_position
from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer
from penstock.cli.completion import complete_topic
from penstock.cli.output import Format, FormatOption, show
from penstock.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.actions.dead_letters.dead_letter import DeadLetter, Filter
    from penstock.actions.dead_letters.replay import ReplaySender

app = typer.Typer(
    help="List, show and replay dead letters.",
    epilog="Example: penstock dlq show orders",
    no_args_is_help=True,
)

# As in actions/dead_letters/topics.py, whose imports are too slow for a help text.
SUFFIX = ".dlq"
NEW = "new"
Name = Annotated[
    str,
    typer.Argument(
        autocompletion=complete_topic,
        metavar="TOPIC",
        help=f"Dead-letter topic, or its source topic without {SUFFIX}.",
        show_default=False,
    ),
]
ErrorOption = Annotated[
    str | None,
    typer.Option("--error", "-e", metavar="CLASS", help="Only this error class, with or without its module."),
]
ContainsOption = Annotated[
    str | None,
    typer.Option("--contains", metavar="TEXT", help="Only letters with this text in the error message or the value."),
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Only letters with this key.")]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only this partition of the dead-letter topic. Repeatable."),
]
OffsetOption = Annotated[
    list[int] | None,
    typer.Option("--offset", "-o", min=0, help="Only this offset of the dead-letter topic. Repeatable."),
]


@app.command("list", epilog="Example: penstock dlq list --format json")
def list_command(
    connection: Connection,
    suffix: Annotated[str, typer.Option("--suffix", help="Suffix of dead-letter topics.")] = SUFFIX,
    format: FormatOption = Format.TABLE,
) -> None:
    """List dead-letter topics with the number of letters, and of letters not replayed yet."""
    from penstock.actions.dead_letters.topics import list_dead_letter_topics

    rows = list_dead_letter_topics(connection, suffix)
    show(rows, ["topic", "source", "letters", "not_replayed"], format)


@app.command("show", epilog="Example: penstock dlq show orders --error ValueError --full")
def show_command(
    connection: Connection,
    topic: Name,
    start: Annotated[
        str,
        typer.Option("--from", metavar="POSITION", help="earliest, an offset (42), the last N (-10), or an age (5m)."),
    ] = "earliest",
    count: Annotated[int, typer.Option("--count", "-n", min=1, metavar="N", help="Show at most N letters.")] = 100,
    error: ErrorOption = None,
    contains: ContainsOption = None,
    key: KeyOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    full: Annotated[bool, typer.Option("--full", help="Show the value, headers and stack trace too.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show dead letters and their errors. With --format json, print one object per line."""
    from penstock.actions.dead_letters.dead_letter import Filter, render_text
    from penstock.actions.dead_letters.topics import read_dead_letters, resolve_dead_letter_topic

    wanted = Filter(error, contains, key, tuple(offset or ()))
    position = parse_position(start, now_ms=int(time.time() * 1000))
    consumer = open_consumer(connection, Isolation.COMMITTED)
    try:
        name = resolve_dead_letter_topic(consumer, topic)
        reader = TopicReader(consumer, name, partition, position, follow=False)
        found = list(islice(read_dead_letters(reader, wanted), count + 1))
    finally:
        consumer.close()
    if full and format is Format.TABLE:
        print("\n\n".join(render_text(letter) for letter in found[:count]))
    else:
        _print_letters(found[:count], format)
    if len(found) > count:
        print(f"There are more than {count} dead letters. Raise --count or add a filter.", file=sys.stderr)


@app.command("replay", epilog="Example: penstock dlq replay orders --error TimeoutError --execute")
def replay(
    connection: Connection,
    topic: Name,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="POSITION", help="new (not replayed yet), earliest, an offset (42), or an age (5m)."
        ),
    ] = NEW,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Send at most N letters.")
    ] = None,
    error: ErrorOption = None,
    contains: ContainsOption = None,
    key: KeyOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="Send to this topic.", show_default="the source topic"),
    ] = None,
    keep_timestamps: Annotated[
        bool, typer.Option("--keep-timestamps", help="Keep the original timestamps instead of the current time.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.1, metavar="N", help="Send at most N letters per second.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute/--dry-run", help="Send the letters, or only show them.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Send dead letters back to their source topic and partition. The letters are not deleted.

    A replay without filters stores its position, and the next one continues there.
    """
    from penstock.actions.dead_letters.dead_letter import Filter
    from penstock.actions.dead_letters.replay import ReplaySender, commit_replay_position, replay_position
    from penstock.actions.dead_letters.topics import resolve_dead_letter_topic

    wanted = Filter(error, contains, key, tuple(offset or ()))
    consumer = open_consumer(connection, Isolation.COMMITTED)
    try:
        name = resolve_dead_letter_topic(consumer, topic)
        position = Earliest() if start == NEW else parse_position(start, now_ms=int(time.time() * 1000))
        reader = TopicReader(consumer, name, partition, position, follow=False)
        if start == NEW:
            reader.start_at(replay_position(connection, name, reader.partitions))
        if not execute:
            _print_plan(reader, wanted, count, format)
            return
        sender = ReplaySender(connection, to=to, keep_timestamps=keep_timestamps, rate=rate)
        try:
            skipped = _send(reader, wanted, count, sender)
        finally:
            # Also after a failure: the letters before it were sent, and the next replay must not repeat them.
            if start == NEW and wanted.matches_all:
                commit_replay_position(connection, name, sender.positions())
    finally:
        consumer.close()
    sender.raise_if_failed()
    rest = f"; skipped {count_of(skipped, 'other record')}" if skipped else ""
    if sender.missing:
        rest += f"; {count_of(sender.missing, 'record')} of other letters no longer exist"
    print(f"{count_of(sender.acknowledged, 'dead letter')} of {name} sent back{rest}", file=sys.stderr)


def _print_plan(reader: TopicReader, wanted: "Filter", count: int | None, format: Format) -> None:
    from penstock.actions.dead_letters.topics import read_dead_letters

    letters = [letter for letter in islice(read_dead_letters(reader, wanted), count) if letter.death is not None]
    _print_letters(letters, format)
    what = count_of(len(letters), "dead letter")
    print(f"Dry run: {what} would be sent. Pass --execute to send them.", file=sys.stderr)


def _print_letters(letters: "Sequence[DeadLetter]", format: Format) -> None:
    from penstock.actions.dead_letters.dead_letter import COLUMNS, dead_letter_row, render_json

    if format is Format.JSON:
        for letter in letters:
            sys.stdout.buffer.write(render_json(letter))
    else:
        show([dead_letter_row(letter) for letter in letters], COLUMNS, format)


def _send(reader: TopicReader, wanted: "Filter", count: int | None, sender: "ReplaySender") -> int:
    """Send letters until the end or Ctrl-C; return how many records were not dead letters."""
    from penstock.actions.dead_letters.topics import read_dead_letters

    skipped = 0
    with Progress("sending back", total=None, shown=True) as progress:
        try:
            for letter in islice(read_dead_letters(reader, wanted), count):
                if letter.death is None:
                    skipped += 1
                    sender.skip(letter)
                    continue
                sender.send(letter)
                progress.advance(len(letter.record.value or b""), done=sender.sent)
        except KeyboardInterrupt:
            print("Stopping after the letters that were already sent.", file=sys.stderr)
        finally:
            sender.finish()
    return skipped
