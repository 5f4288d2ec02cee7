"""penstock config: read and change the settings of topics and brokers while they run."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption, open_admin, parse_pairs, wait
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="Read and change settings of topics and brokers.",
    epilog="Example: penstock config set --topic orders retention.ms=86400000",
    no_args_is_help=True,
)

TopicOption = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="The settings of this topic.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", metavar="ID", help="The settings of this one broker.")]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="What is set for all brokers together.")]


@app.command("get", epilog="Example: penstock config get --topic orders --all")
def get(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[OPTION]...", help="Only these options.", show_default=False)
    ] = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    all_options: Annotated[bool, typer.Option("--all", "-a", help="Show defaults too, not only what was set.")] = False,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show settings, where each comes from, and whether it can change while the broker runs."""
    entries = _describe(bootstrap, _whose(topic, broker, cluster))
    unknown = [name for name in names or [] if name not in entries]
    if unknown:
        raise CommandError(f"There is no option {', '.join(unknown)} here: 'penstock config get --all' lists them.")
    rows = [_row(entry) for name, entry in sorted(entries.items()) if not names or name in names]
    shown = rows if names or all_options else [row for row in rows if row["source"] != "default"]
    show(shown, ["option", "value", "source", "read_only"], format)
    if format is Format.TABLE and len(shown) < len(rows) and not names:
        typer.echo(f"{len(rows) - len(shown)} options stand at their default; --all shows them.", err=True)


@app.command("set", epilog="Example: penstock config set --topic orders retention.ms=86400000 cleanup.policy=delete")
def set_options(
    pairs: Annotated[list[str], typer.Argument(metavar="OPTION=VALUE...", show_default=False)],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set options. They hold at once, without a restart."""
    values = parse_pairs(pairs, option="retention.ms=86400000")
    _alter(bootstrap, _whose(topic, broker, cluster), values)
    for name, value in values.items():
        typer.echo(f"set {name}={value}")


@app.command("unset", epilog="Example: penstock config unset --topic orders retention.ms")
def unset(
    names: Annotated[list[str], typer.Argument(metavar="OPTION...", show_default=False)],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Take options back to their default."""
    _alter(bootstrap, _whose(topic, broker, cluster), dict.fromkeys(names))
    for name in names:
        typer.echo(f"unset {name}")


class _Whose(NamedTuple):
    """Whose settings: a topic's, a broker's, or with an empty name those of all brokers."""

    is_topic: bool
    name: str


def _whose(topic: str | None, broker: str | None, cluster: bool) -> _Whose:
    if [bool(topic), bool(broker), cluster].count(True) != 1:
        raise CommandError("Say whose settings: one of --topic NAME, --broker ID or --cluster.")
    if broker and not broker.isdigit():
        raise CommandError(f"'{broker}' is no broker: --broker takes its id, a number.")
    return _Whose(bool(topic), topic or broker or "")


def _resource(whose: _Whose) -> Any:
    from confluent_kafka.admin import ConfigResource

    return ConfigResource(ConfigResource.Type.TOPIC if whose.is_topic else ConfigResource.Type.BROKER, whose.name)


def _describe(bootstrap: str, whose: _Whose) -> dict[str, Any]:
    if not whose.name:
        from penstock.actions import configs

        return cluster_config.describe(bootstrap)
    resource = _resource(whose)
    # Held in a name: the library gives up its requests when the client object goes.
    admin = open_admin(bootstrap)
    return wait(admin.describe_configs([resource])[resource], about=whose.name)


def _alter(bootstrap: str, whose: _Whose, values: Mapping[str, str | None]) -> None:
    if not whose.name:
        from penstock.actions import configs

        cluster_config.alter(bootstrap, values)
        return
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    resource = _resource(whose)
    for name, value in values.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=operation))
    admin = open_admin(bootstrap)
    wait(admin.incremental_alter_configs([resource])[resource], about=whose.name)


def _row(entry: Any) -> dict[str, Any]:
    from confluent_kafka.admin import ConfigSource

    try:
        source = ConfigSource(entry.source).name.removesuffix("_CONFIG").replace("_", " ").lower()
    except ValueError:
        source = str(entry.source)
    return {
        "option": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": source,
        "read_only": bool(entry.is_read_only),
    }
