"""penstock queue: list, describe and purge share groups, look at their records, and send dead letters back.

Looking at records locks nothing. A redrive sends nothing unless --execute is given.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.connection import Connection
from penstock.actions.plurals import count_of
from penstock.cli.completion import complete_share_group, complete_topic
from penstock.cli.confirm import YesOption, confirm
from penstock.cli.output import Format, FormatOption, show

if TYPE_CHECKING:
    from penstock.actions.cluster_client import ClusterClient
    from penstock.actions.dead_letters.dead_letter import DeadLetter
    from penstock.actions.queues import QueuePartition
    from penstock.actions.record_format import LineRecord
    from penstock.actions.topic_reader import TopicReader

app = typer.Typer(
    help="List, describe and purge share groups; look at their records.",
    epilog="Example: penstock queue describe billing",
    no_args_is_help=True,
)

Name = Annotated[
    str, typer.Argument(metavar="GROUP", help="Share group.", show_default=False, autocompletion=complete_share_group)
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="Only this topic. Repeatable.", autocompletion=complete_topic),
]
LISTED = ["group", "state", "coordinator", "members", "partitions", "lag"]
DESCRIBED = ["group", "topic", "partition", "start_offset", "lag", "members"]
PEEKED = ["topic", "partition", "offset", "timestamp", "key", "value"]
STUCK = [
    "group",
    "topic",
    "partition",
    "first_offset",
    "last_offset",
    "state",
    "delivery_count",
    "member",
    "lock_left_ms",
    "delay_left_ms",
]
REDRIVE_PREFIX = "penstock-redrive-"


@app.command("list", epilog="Example: penstock queue list --format json")
def list_command(connection: Connection, format: FormatOption = Format.TABLE) -> None:
    """List share groups with their members and lag."""
    # Loading the schemas would delay the start of every other command.
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.queues import list_queues, queue_partitions

    rows = []
    with open_cluster(connection) as cluster:
        for queue in list_queues(cluster):
            partitions = queue_partitions(cluster, queue)
            rows.append(
                {
                    **queue._asdict(),
                    "members": len(queue.members),
                    "partitions": len(partitions),
                    "lag": sum(each.lag or 0 for each in partitions),
                }
            )
    show(rows, LISTED, format)


@app.command("describe", epilog="Example: penstock queue describe billing")
def describe(connection: Connection, name: Name, format: FormatOption = Format.TABLE) -> None:
    """Show the partitions of a share group: start offset, lag, and the members that read them."""
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.queues import describe_queues, queue_partitions

    with open_cluster(connection) as cluster:
        (queue,) = describe_queues(cluster, [name])
        partitions = queue_partitions(cluster, queue)
    rows = [
        {
            **each._asdict(),
            "members": [member.member for member in queue.members if (each.topic, each.partition) in member.partitions],
        }
        for each in partitions
    ]
    if format is Format.TABLE:
        print(f"{queue.group}  state={queue.state}  coordinator={queue.coordinator}  members={len(queue.members)}")
    show(rows, DESCRIBED, format)


@app.command("peek", epilog="Example: penstock queue peek billing --count 5")
def peek(
    connection: Connection,
    name: Name,
    topic: TopicOption = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, metavar="N", help="Show at most N records of each partition.")
    ] = 10,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the first unfinished records without locking them. Other consumers may hold them.

    On a secured cluster, records that were finished out of order are shown, too.
    """
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.queues import describe_queues, queue_partitions
    from penstock.actions.record_format import render_json_line

    found: list[LineRecord] = []
    with open_cluster(connection) as cluster:
        (queue,) = describe_queues(cluster, [name])
        for each in queue_partitions(cluster, queue):
            if not topic or each.topic in topic:
                found += islice(_unfinished(connection, cluster, each), count)
    if format is Format.JSON:
        for record in found:
            sys.stdout.buffer.write(render_json_line(record))
    else:
        show([_record_row(record) for record in found], PEEKED, format)


def _unfinished(
    connection: Connection, cluster: "ClusterClient", partition: "QueuePartition"
) -> "Iterator[LineRecord]":
    from penstock.actions.positions import Earliest
    from penstock.actions.queues import finished_ranges
    from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer

    if partition.start_offset is None:
        return
    # On a secured cluster only nodes may read share-group state, so finished records cannot be left out.
    finished = [] if connection.security else finished_ranges(cluster, partition)
    consumer = open_consumer(connection, Isolation.UNCOMMITTED)
    try:
        reader = TopicReader(consumer, partition.topic, [partition.partition], Earliest(), follow=False)
        reader.start_at({partition.partition: partition.start_offset})
        for records in reader.batches(None):
            yield from (record for record in records if not any(record.offset in each for each in finished))
    finally:
        consumer.close()


def _record_row(record: "LineRecord") -> dict[str, Any]:
    from penstock.actions.record_format import render_timestamp

    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode("utf-8", "backslashreplace")

    at = record.timestamp_ms
    row = record._asdict() | {"key": text(record.key), "value": text(record.value)}
    return row | {"timestamp": None if at is None else render_timestamp(at)}


@app.command("stuck", epilog="Example: penstock queue stuck billing --deliveries 3")
def stuck(
    connection: Connection,
    name: Name,
    topic: TopicOption = None,
    deliveries: Annotated[
        int, typer.Option("--deliveries", min=1, metavar="N", help="Only records delivered at least N times.")
    ] = 2,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show unfinished records that were delivered repeatedly, and who holds them. Needs metrics.listener."""
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.queues import describe_queues, records_in_flight

    with open_cluster(connection) as cluster:
        describe_queues(cluster, [name])
        found = [
            each
            for each in records_in_flight(cluster)
            if each.group == name
            and not each.is_finished
            and each.delivery_count >= deliveries
            and (not topic or each.topic in topic)
        ]
    show([each._asdict() for each in found], STUCK, format)


@app.command("redrive", epilog="Example: penstock queue redrive billing --execute")
def redrive(
    connection: Connection,
    name: Name,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Send at most N letters.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TOPIC",
            help="Send to this topic.",
            show_default="the source topic",
            autocompletion=complete_topic,
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.1, metavar="N", help="Send at most N letters per second.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute/--dry-run", help="Send the letters, or only show them.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Send the dead letters of a share group that were not sent yet back to their source topic.

    A letter that only points to its source sends the source record. The letters are not deleted.
    """
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.dead_letters.dead_letter import COLUMNS, dead_letter_row
    from penstock.actions.dead_letters.replay import ReplaySender, commit_replay_position, replay_position
    from penstock.actions.positions import Earliest
    from penstock.actions.queues import dead_letter_topic
    from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer

    position_group = REDRIVE_PREFIX + name
    with open_cluster(connection) as cluster:
        letters = dead_letter_topic(cluster, name)
    consumer = open_consumer(connection, Isolation.COMMITTED)
    try:
        reader = TopicReader(consumer, letters, None, Earliest(), follow=False)
        reader.start_at(replay_position(connection, letters, reader.partitions, group=position_group))
        if not execute:
            rows = [
                dead_letter_row(letter)
                for letter in islice((each for each, is_own in _letters(reader, name) if is_own), count)
            ]
            show(rows, COLUMNS, format)
            what = count_of(len(rows), "dead letter")
            print(f"Dry run: {what} would be sent. Pass --execute to send them.", file=sys.stderr)
            return
        sender = ReplaySender(connection, to=to, rate=rate)
        try:
            for letter, is_own in _letters(reader, name):
                if not is_own:
                    sender.skip(letter)
                elif count is not None and sender.sent >= count:
                    break
                else:
                    sender.send(letter)
        finally:
            sender.finish()
            # Also after a failure or Ctrl-C: the next redrive must not repeat the letters that were sent.
            commit_replay_position(connection, letters, sender.positions(), group=position_group)
    finally:
        consumer.close()
    sender.raise_if_failed()
    rest = f"; {count_of(sender.missing, 'record')} of other letters no longer exist" if sender.missing else ""
    print(f"{count_of(sender.acknowledged, 'dead letter')} of {letters} sent back{rest}", file=sys.stderr)


def _letters(reader: "TopicReader", group: str) -> "Iterator[tuple[DeadLetter, bool]]":
    """Yield the records of a dead-letter topic, and whether they are letters of the group."""
    from penstock.actions.dead_letters.dead_letter import Filter
    from penstock.actions.dead_letters.topics import read_dead_letters

    wanted = Filter(group=group)
    return ((letter, wanted.matches(letter)) for letter in read_dead_letters(reader, Filter()))


@app.command("purge", epilog="Example: penstock queue purge billing --topic orders --yes")
def purge_command(connection: Connection, name: Name, topic: TopicOption = None, yes: YesOption = False) -> None:
    """Finish all records of a share group without members. The records stay in their topics."""
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.queues import describe_queues, purge

    with open_cluster(connection) as cluster:
        (queue,) = describe_queues(cluster, [name])
        what = ", ".join(topic) if topic else "all topics"
        confirm(f"Move share group {name} to the end of {what}? Records before it are not delivered.", yes=yes)
        moved = purge(cluster, queue, topic or ())
    show([each._asdict() for each in moved], ["group", "topic", "partition", "start_offset"], Format.TABLE)
