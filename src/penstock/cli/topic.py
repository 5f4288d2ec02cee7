"""penstock topic: create, list, describe, delete and extend topics."""

import sys
from typing import Annotated

import typer

from penstock.actions import topics as actions
from penstock.actions.connection import Connection
from penstock.actions.librdkafka import open_admin
from penstock.cli.arguments import parse_pairs
from penstock.cli.completion import complete_topic
from penstock.cli.confirm import YesOption, confirm, counted
from penstock.cli.output import Format, FormatOption, show, with_units
from penstock.cli.skew import EXAMPLE as SKEW_EXAMPLE
from penstock.cli.skew import skew

app = typer.Typer(
    help="Create, list, describe and delete topics.",
    epilog="Example: penstock topic create orders --partitions 3",
    no_args_is_help=True,
)

Names = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC...", help="Topic names.", show_default=False, autocompletion=complete_topic),
]
DESCRIBED = ["topic", "partition", "leader", "replicas", "isr", "earliest", "latest", "offsets"]
BROKER_DEFAULT = -1
PARTITIONS_MAX = 100_000
"""The client library rejects more with an error that does not say so."""
REPLICAS_MAX = 32_767


@app.command("create", epilog="Example: penstock topic create orders --partitions 3 --config retention.ms=86400000")
def create(
    connection: Connection,
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=PARTITIONS_MAX,
            help="Number of partitions.",
            show_default="the broker's num.partitions",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=REPLICAS_MAX,
            help="Number of replicas of each partition.",
            show_default="the broker's default",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="Topic configuration. Repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the topic already exists.")
    ] = False,
) -> None:
    """Create topics."""
    settings = parse_pairs(config or [], example="--config retention.ms=86400000")
    actions.create_topics(
        open_admin(connection),
        names,
        partitions=BROKER_DEFAULT if partitions is None else partitions,
        replication_factor=BROKER_DEFAULT if replication_factor is None else replication_factor,
        config=settings,
        created=lambda name: print(f"created {name}"),
        exists=(lambda name: print(f"{name} already exists", file=sys.stderr)) if if_not_exists else None,
    )


@app.command("list", epilog="Example: penstock topic list --format json")
def list_topics(
    connection: Connection,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """List topics with their partitions, replicas and sizes. Internal topics are hidden."""
    from penstock.actions.cluster.log_dirs import topic_sizes

    listed = actions.list_topics(open_admin(connection))
    shown = [row for row in listed if internal or not row["is_internal"]]
    sizes = topic_sizes(connection) if shown else {}
    for row in shown:
        found = sizes.get(row["topic"])
        row.update(size=found and found.leaders, size_on_disk=found and found.replicas)
    if format is Format.TABLE:
        with_units(shown, ["size", "size_on_disk"])
    show(shown, ["topic", "partitions", "replication_factor", "size", "size_on_disk", "topic_id"], format)
    if format is Format.TABLE and len(shown) < len(listed):
        print(
            f"Internal topics are hidden ({len(listed) - len(shown)}). Pass --internal to show them.", file=sys.stderr
        )


@app.command("describe", epilog="Example: penstock topic describe orders")
def describe(connection: Connection, names: Names, format: FormatOption = Format.TABLE) -> None:
    """Show the partitions of topics: leader, replicas, in-sync replicas and offsets.

    The column offsets is how many offsets the log spans; transaction markers and compacted records are included.
    """
    admin = open_admin(connection)
    topics = actions.describe_topics(admin, names)
    if format is not Format.TABLE:
        show([row for topic in topics for row in topic.partitions], ["topic", "topic_id", *DESCRIBED[1:]], format)
        return
    for position, topic in enumerate(topics):
        overrides = actions.overridden_configs(admin, topic.name) or ["(default configuration)"]
        print(("\n" if position else "") + f"{topic.name}  id={topic.topic_id}  " + "  ".join(overrides))
        show(topic.partitions, DESCRIBED[1:], format)


@app.command("delete", epilog="Example: penstock topic delete orders")
def delete(connection: Connection, names: Names, yes: YesOption = False) -> None:
    """Delete topics and all their records. This cannot be undone."""
    admin = open_admin(connection)
    confirm(f"Delete {counted(names, 'topic')} with all records?", yes=yes)
    actions.delete_topics(admin, names, deleted=lambda name: print(f"deleted {name}"))


@app.command("add-partitions", epilog="Example: penstock topic add-partitions orders --partitions 6")
def add_partitions(
    connection: Connection,
    name: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
    ],
    partitions: Annotated[
        int,
        typer.Option("--partitions", "-p", min=1, max=PARTITIONS_MAX, help="New total number of partitions."),
    ],
) -> None:
    """Add partitions to a topic.

    Existing records stay where they are; records with the same key may go to another partition from now on.
    """
    actions.add_partitions(open_admin(connection), name, partitions)
    print(f"{name} has {partitions} partitions")


@app.command("delete-records", epilog="Example: penstock topic delete-records orders --before 24h")
def delete_records(
    connection: Connection,
    name: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
    ],
    before: Annotated[
        str,
        typer.Option("--before", metavar="POSITION", help="An offset (42), latest, an age (24h) or a time."),
    ],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition. Repeatable.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete the records before a position. This cannot be undone."""
    import time

    from penstock.actions.positions import parse_position

    position = parse_position(before, now_ms=int(time.time() * 1000))
    admin = open_admin(connection)
    moves = actions.plan_record_deletion(admin, name, partition, position)
    if not moves:
        print(f"{name} has no records before {before}")
        return
    show([move._asdict() for move in moves], ["topic", "partition", "before", "after"], Format.TABLE)
    confirm(f"Delete the records of {name} before these offsets?", yes=yes)
    actions.delete_records(admin, {(move.topic, move.partition): move.after for move in moves})


app.command("skew", epilog=SKEW_EXAMPLE)(skew)
