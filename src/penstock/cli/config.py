"""penstock config: get, set and unset the configuration of topics and brokers."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from penstock.actions.configs import ConfigEntry, Resource, ResourceType, alter_config, describe_config
from penstock.actions.connection import Connection
from penstock.cli.arguments import parse_pairs
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.cli.suggestions import did_you_mean

app = typer.Typer(
    help="Get and set the configuration of topics and brokers.",
    epilog="Example: penstock config set --topic orders retention.ms=86400000",
    no_args_is_help=True,
)

TopicOption = Annotated[
    str | None,
    typer.Option("--topic", "-t", metavar="NAME", help="Configuration of a topic.", autocompletion=complete_topic),
]
BrokerOption = Annotated[str | None, typer.Option("--broker", metavar="ID", help="Configuration of one broker.")]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="Configuration of all brokers.")]


@app.command("get", epilog="Example: penstock config get --topic orders --all")
def get(
    connection: Connection,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPTION]...", help="Option names; all that are set by default.", show_default=False),
    ] = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    all_options: Annotated[bool, typer.Option("--all", "-a", help="Include options with their default value.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show options with their value and source, and whether they can change at run time."""
    entries = describe_config(connection, _resource(topic, broker, cluster))
    unknown = [name for name in names or [] if name not in entries]
    if unknown:
        raise CommandError(_describe_unknown(unknown, entries))
    rows = [_row(entry) for name, entry in sorted(entries.items()) if not names or name in names]
    shown = rows if names or all_options else [row for row in rows if row["source"] != "default"]
    show(shown, ["option", "value", "source", "read_only"], format)
    if format is Format.TABLE and len(shown) < len(rows) and not names:
        typer.echo(f"{len(rows) - len(shown)} options have their default value. Pass --all to show them.", err=True)


@app.command("set", epilog="Example: penstock config set --topic orders retention.ms=86400000 cleanup.policy=delete")
def set_options(
    connection: Connection,
    pairs: Annotated[list[str], typer.Argument(metavar="OPTION=VALUE...", help="New values.", show_default=False)],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
) -> None:
    """Set options. They take effect without a restart."""
    from penstock.config.settings import option_of

    values = parse_pairs(pairs, example="retention.ms=86400000")
    alter_config(connection, _resource(topic, broker, cluster), values)
    for name, value in values.items():
        option = option_of(name)
        typer.echo(f"set {name}={'(hidden)' if option is not None and option.sensitive else value}")


@app.command("unset", epilog="Example: penstock config unset --topic orders retention.ms")
def unset(
    connection: Connection,
    names: Annotated[list[str], typer.Argument(metavar="OPTION...", help="Option names.", show_default=False)],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
) -> None:
    """Restore the default value of options."""
    alter_config(connection, _resource(topic, broker, cluster), dict.fromkeys(names))
    for name in names:
        typer.echo(f"unset {name}")


def _resource(topic: str | None, broker: str | None, cluster: bool) -> Resource:
    if [bool(topic), bool(broker), cluster].count(True) != 1:
        raise CommandError("Pass exactly one of --topic NAME, --broker ID or --cluster.")
    if topic:
        return Resource(ResourceType.TOPIC, topic)
    if broker:
        if not broker.isdigit():
            raise CommandError(f"Invalid broker id '{broker}': expected a number.")
        return Resource(ResourceType.BROKER, broker)
    return Resource(ResourceType.CLUSTER)


def _describe_unknown(names: list[str], known: Iterable[str]) -> str:
    meant = did_you_mean(names[0], known)
    listed = "Run 'penstock config get --all' to list the options."
    return " ".join(filter(None, (f"Unknown option '{', '.join(names)}'.", meant, listed)))


def _row(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "option": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": entry.source,
        "read_only": entry.is_read_only,
    }
