"""penstock dlq: look at dead letters and send them back.

Reads what penstock.worker writes (`<topic>.dlq`). Looking belongs to no group and commits nothing.
A replay shows what it would send and sends nothing unless --execute is given.
"""

import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, REQUEST_TIMEOUT_S, BootstrapOption, open_admin
from penstock.cli.consume import Isolation, Reader, open_consumer
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.actions.positions import Earliest, parse_position
from penstock.cli.progress import Progress

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from penstock.actions.dead_letters.letter import Filter, Letter
    from penstock.actions.dead_letters.replay import Sender

app = typer.Typer(
    help="Look at dead letters and send them back.",
    epilog="Example: penstock dlq show orders",
    no_args_is_help=True,
)

SUFFIX = ".dlq"
NEW = "new"
Name = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help=f"The dead-letter topic, or its source without {SUFFIX}.", show_default=False),
]
ErrorOption = Annotated[
    str | None, typer.Option("--error", "-e", metavar="CLASS", help="Only this error, with its module or without.")
]
ContainsOption = Annotated[
    str | None, typer.Option("--contains", metavar="TEXT", help="Only where the error's message or the value has it.")
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Only letters with this key.")]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only this partition of the dead-letter topic; repeatable."),
]
OffsetOption = Annotated[
    list[int] | None, typer.Option("--offset", "-o", min=0, help="Only this offset there; repeatable.")
]


@app.command("list", epilog="Example: penstock dlq list --format json")
def list_command(
    suffix: Annotated[str, typer.Option("--suffix", help="How the names of dead-letter topics end.")] = SUFFIX,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the dead-letter topics: how many letters they hold, and how many no replay has sent back."""
    from confluent_kafka.admin import OffsetSpec

    from penstock.actions.groups import committed_offsets, latest_offsets, log_offsets
    from penstock.actions.dead_letters.replay import GROUP

    admin = open_admin(bootstrap)
    topics = {
        name: topic
        for name, topic in sorted(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics.items())
        if name.endswith(suffix)
    }
    places = [(name, index) for name, topic in topics.items() for index in topic.partitions]
    firsts, ends = log_offsets(admin, places, OffsetSpec.earliest()), latest_offsets(admin, places)
    replayed = committed_offsets(admin, GROUP) if topics else {}
    rows = []
    for name in topics:
        letters = waiting = 0
        for place in (place for place in places if place[0] == name):
            first, end = firsts.get(place) or 0, ends.get(place) or 0
            letters += end - first
            waiting += max(0, end - max(first, replayed.get(place, first)))
        rows.append({"topic": name, "source": name.removesuffix(suffix), "letters": letters, "not_replayed": waiting})
    show(rows, ["topic", "source", "letters", "not_replayed"], format)


@app.command("show", epilog="Example: penstock dlq show orders --error ValueError --full")
def show_command(
    topic: Name,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="earliest, an offset, the last ten (-10), a time ago (5m).")
    ] = "earliest",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Show no more than so many.")] = 100,
    error: ErrorOption = None,
    contains: ContainsOption = None,
    key: KeyOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    full: Annotated[bool, typer.Option("--full", help="Everything about each: value, headers and trace.")] = False,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show dead letters and why they died. JSON is one object a line, with everything."""
    from penstock.actions.dead_letters.letter import COLUMNS, Filter, letter_json, letter_row, letter_text

    wanted = Filter(error, contains, key, tuple(offset or ()))
    position = parse_position(start, now_ms=int(time.time() * 1000))
    consumer = open_consumer(bootstrap, Isolation.COMMITTED)
    try:
        reader = Reader(consumer, full_name(consumer, topic), partition, position, follow=False)
        found = list(islice(letters_in(reader, wanted), count + 1))
    finally:
        consumer.close()
    letters = found[:count]
    if format is Format.JSON:
        for letter in letters:
            sys.stdout.buffer.write(letter_json(letter))
    elif full and format is Format.TABLE:
        print("\n\n".join(letter_text(letter) for letter in letters))
    else:
        show([letter_row(letter) for letter in letters], COLUMNS, format)
    if len(found) > count:
        print(f"there are more than {count}: --count shows more, filters show fewer", file=sys.stderr)


@app.command("replay", epilog="Example: penstock dlq replay orders --error TimeoutError --execute")
def replay(
    topic: Name,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHERE", help="new (what no replay has sent back), earliest, an offset, a time ago (5m)."
        ),
    ] = NEW,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Send no more than so many.")] = None,
    error: ErrorOption = None,
    contains: ContainsOption = None,
    key: KeyOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Send to this topic.", show_default="the original one")
    ] = None,
    keep_timestamps: Annotated[
        bool, typer.Option("--keep-timestamps", help="With the time that the record had; else with the present one.")
    ] = False,
    rate: Annotated[float | None, typer.Option("--rate", min=0.1, help="No more than so many a second.")] = None,
    execute: Annotated[bool, typer.Option("--execute/--dry-run", help="Do it, or only show what would go.")] = False,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Send dead letters back as they were: key, value, headers, topic and partition. The letters stay.

    A replay without filters is remembered, and the next one begins behind it.
    """
    from penstock.actions.dead_letters.letter import Filter
    from penstock.actions.dead_letters.replay import Sender, remember, remembered

    wanted = Filter(error, contains, key, tuple(offset or ()))
    consumer = open_consumer(bootstrap, Isolation.COMMITTED)
    try:
        name = full_name(consumer, topic)
        position = Earliest() if start == NEW else parse_position(start, now_ms=int(time.time() * 1000))
        reader = Reader(consumer, name, partition, position, follow=False)
        if start == NEW:
            reader.begin_at(remembered(bootstrap, name, reader.partitions))
        if not execute:
            _rehearse(reader, wanted, count, format)
            return
        sender = Sender(bootstrap, to=to, keep_timestamps=keep_timestamps, rate=rate)
        skipped = _send(reader, wanted, count, sender)
    finally:
        consumer.close()
    if start == NEW and wanted.is_open:
        remember(bootstrap, name, sender.positions())
    sender.complain()
    rest = f", {skipped} are no dead letters of a worker and stay" if skipped else ""
    print(f"{sender.acknowledged} letters of {name} sent back{rest}", file=sys.stderr)


def _rehearse(reader: Reader, wanted: "Filter", count: int | None, format: Format) -> None:
    from penstock.actions.dead_letters.letter import COLUMNS, letter_json, letter_row

    letters = [letter for letter in islice(letters_in(reader, wanted), count) if letter.death is not None]
    if format is Format.JSON:
        for letter in letters:
            sys.stdout.buffer.write(letter_json(letter))
    else:
        show([letter_row(letter) for letter in letters], COLUMNS, format)
    print(f"dry run: {len(letters)} letters would be sent back; --execute does it", file=sys.stderr)


def _send(reader: Reader, wanted: "Filter", count: int | None, sender: "Sender") -> int:
    """Send what is wanted; return how many records were no letters. Ctrl-C ends it early and safely."""
    skipped = 0
    with Progress("sending back", total=None, shown=True) as progress:
        try:
            for letter in islice(letters_in(reader, wanted), count):
                if letter.death is None:
                    skipped += 1
                    sender.pass_over(letter)
                    continue
                sender.send(letter)
                progress.advance(len(letter.record.value or b""), done=sender.sent)
        except KeyboardInterrupt:
            print("stopped: what was sent so far is waited for", file=sys.stderr)
        finally:
            sender.finish()
    return skipped


def letters_in(reader: Reader, wanted: "Filter") -> "Iterator[Letter]":
    from penstock.actions.dead_letters.letter import open_letter

    for records in reader.batches(None):
        for record in records:
            letter = open_letter(record)
            if wanted.passes(letter):
                yield letter


def full_name(consumer: "Consumer", name: str) -> str:
    """Return the dead-letter topic that is meant: the name as it is, or the source's with the suffix."""
    topics = consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    if not name.endswith(SUFFIX) and name + SUFFIX in topics:
        return name + SUFFIX
    if name in topics:
        return name
    raise CommandError(f"There is no dead-letter topic for {name}: 'penstock dlq list' shows those there are.")
