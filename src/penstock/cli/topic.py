"""penstock topic: create, list, describe, delete and grow topics, over the admin protocol."""

import sys
from typing import Annotated, Any

import typer

from penstock.actions.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    open_admin,
    parse_pairs,
    wait,
    wait_all,
)
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.cli.skew import EXAMPLE as SKEW_EXAMPLE
from penstock.cli.skew import skew

app = typer.Typer(
    help="Create, list, describe, delete and grow topics.",
    epilog="Example: penstock topic create orders --partitions 3",
    no_args_is_help=True,
)

app.command("skew", epilog=SKEW_EXAMPLE)(skew)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The names of the topics.", show_default=False)]
DESCRIBED = ["topic", "partition", "leader", "replicas", "isr", "earliest", "latest", "records"]


@app.command("create", epilog="Example: penstock topic create orders --partitions 3 --config retention.ms=86400000")
def create(
    names: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many partitions.", show_default="the broker's num.partitions")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="On how many brokers each partition lives.",
            show_default="the broker's default",
        ),
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A setting of the topic; repeatable."),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave a topic alone that is there.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Create topics."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    settings = parse_pairs(config or [], option="--config retention.ms=86400000")
    admin = open_admin(bootstrap)
    topics = [NewTopic(name, partitions, replication_factor, config=settings) for name in dict.fromkeys(names)]
    futures = admin.create_topics(topics, operation_timeout=REQUEST_TIMEOUT_S)
    if if_not_exists:
        for name, future in list(futures.items()):
            problem = future.exception(timeout=REQUEST_TIMEOUT_S * 2)
            if isinstance(problem, KafkaException) and problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                print(f"{name} is there already", file=sys.stderr)
                del futures[name]
    wait_all(futures, done=lambda name: print(f"created {name}"))


@app.command("list", epilog="Example: penstock topic list --format json")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show the cluster's own topics too.")] = False,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics of the cluster."""
    admin = open_admin(bootstrap)
    names = sorted(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics)
    rows = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(partition.replicas) for partition in topic.partitions), default=0),
            "topic_id": str(topic.topic_id),
        }
        for name, topic in _describe(admin, names).items()
        if internal or not topic.is_internal
    ]
    show(rows, ["topic", "partitions", "replication_factor", "topic_id"], format)


@app.command("describe", epilog="Example: penstock topic describe orders")
def describe(
    names: Names,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the partitions of topics: who leads them, who follows, and which offsets they hold."""
    admin = open_admin(bootstrap)
    found = _describe(admin, list(dict.fromkeys(names)))
    offsets = _offsets(admin, found)
    rows = [
        _partition_row(name, topic, partition, offsets)
        for name, topic in found.items()
        for partition in topic.partitions
    ]
    if format is not Format.TABLE:
        show(rows, ["topic", "topic_id", *DESCRIBED[1:]], format)
        return
    for position, (name, topic) in enumerate(found.items()):
        overrides = _overrides(admin, name)
        print(
            ("\n" if position else "")
            + f"{name}  id={topic.topic_id}  "
            + "  ".join(overrides or ["(default settings)"])
        )
        show([row for row in rows if row["topic"] == name], DESCRIBED[1:], format)


@app.command("delete", epilog="Example: penstock topic delete orders")
def delete(names: Names, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Delete topics with all their records. There is no way back."""
    admin = open_admin(bootstrap)
    futures = admin.delete_topics(list(dict.fromkeys(names)), operation_timeout=REQUEST_TIMEOUT_S)
    wait_all(futures, done=lambda name: print(f"deleted {name}"))


@app.command("add-partitions", epilog="Example: penstock topic add-partitions orders --partitions 6")
def add_partitions(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False)],
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="The new total, not how many to add.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give a topic more partitions. Records stay where they are; new keys may land elsewhere."""
    from confluent_kafka.admin import NewPartitions

    admin = open_admin(bootstrap)
    wait_all(admin.create_partitions([NewPartitions(name, partitions)], operation_timeout=REQUEST_TIMEOUT_S))
    print(f"{name} has {partitions} partitions")


def _describe(admin: Any, names: list[str]) -> dict[str, Any]:
    from confluent_kafka import TopicCollection

    if not names:
        return {}
    futures = admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S)
    return wait_all(futures)


def _offsets(admin: Any, topics: dict[str, Any]) -> dict[tuple[str, int, str], int | None]:
    """Return the earliest and the latest offset of each partition that has a leader."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    partitions = [
        TopicPartition(name, partition.id)
        for name, topic in topics.items()
        for partition in topic.partitions
        if partition.leader is not None
    ]
    found: dict[tuple[str, int, str], int | None] = {}
    for which, spec in (("earliest", OffsetSpec.earliest()), ("latest", OffsetSpec.latest())):
        for where, future in admin.list_offsets(dict.fromkeys(partitions, spec)).items():
            try:
                found[where.topic, where.partition, which] = wait(
                    future, about=f"{where.topic}-{where.partition}"
                ).offset
            except CommandError:
                # A partition whose leader does not answer still has a row: the dash in it is the news.
                found[where.topic, where.partition, which] = None
    return found


def _partition_row(
    name: str, topic: Any, partition: Any, offsets: dict[tuple[str, int, str], int | None]
) -> dict[str, Any]:
    earliest, latest = (offsets.get((name, partition.id, which)) for which in ("earliest", "latest"))
    return {
        "topic": name,
        "topic_id": str(topic.topic_id),
        "partition": partition.id,
        "leader": partition.leader.id if partition.leader is not None else None,
        "replicas": [node.id for node in partition.replicas],
        "isr": [node.id for node in partition.isr],
        "earliest": earliest,
        "latest": latest,
        "records": None if earliest is None or latest is None else latest - earliest,
    }


def _overrides(admin: Any, name: str) -> list[str]:
    from confluent_kafka.admin import ConfigResource, ConfigSource

    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    entries = wait(admin.describe_configs([resource])[resource], about=name)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return [f"{entry.name}={entry.value}" for entry in entries.values() if entry.source == own]
