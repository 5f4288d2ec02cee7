"""penstock quota: how much users, client ids and addresses may ask of the cluster.

The client library has no name for these requests, so they go out over direct.py. The words are Kafka's:
what is set here is what `kafka-configs --entity-type clients|users|ips` shows, and the other way round.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption, parse_pairs
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from penstock.wire.api import ApiKey

app = typer.Typer(
    help="Read and change quotas: how much a client may ask for in a time.",
    epilog="Example: penstock quota set --client-id reports consumer_byte_rate=10mb",
    no_args_is_help=True,
)

DEFAULT: Final = "default"
UNITS: Final = {"kb": 1024, "mb": 1024**2, "gb": 1024**3}
MEANINGS: Final = {
    PRODUCER_BYTE_RATE: "bytes a second that may be produced",
    CONSUMER_BYTE_RATE: "bytes a second that may be fetched",
    REQUEST_PERCENTAGE: "percent of a broker's time",
    CONTROLLER_MUTATION_RATE: "partitions a second that may be made or deleted",
    CONNECTION_CREATION_RATE: "connections a second, for an --ip only",
}
KEYS: Final = "; ".join(f"{key}: {meaning}" for key, meaning in MEANINGS.items())

UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="This user; 'default': every user without a quota of their own."),
]
ClientOption = Annotated[
    str | None, typer.Option("--client-id", metavar="ID", help="This client id, alone or of the --user; or 'default'.")
]
AddressOption = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="This address; or 'default'.")]


@app.command("list", epilog="Example: penstock quota list --user ANONYMOUS")
def list_quotas(
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the quotas there are, or those of one user, client id or address."""
    entity = _entity(user, client_id, ip, wanted=False)
    rows = [
        {**{kind: DEFAULT if name is None else name for kind, name in names.items()}, "quota": key, "value": value}
        for names, quotas in _describe(bootstrap, entity)
        for key, value in sorted(quotas.items())
    ]
    show(sorted(rows, key=str), [USER, CLIENT_ID, IP, "quota", "value"], format)
    if not rows and format is Format.TABLE:
        typer.echo("No quota is set: 'penstock quota set --help' shows how to set one.", err=True)


@app.command("set", epilog="Example: penstock quota set --user default --client-id reports consumer_byte_rate=10mb")
def set_quotas(
    pairs: Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...", show_default=False, help=KEYS)],
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set quotas. They hold at once, also for clients that are connected. Bytes may end in kb, mb or gb."""
    asked = parse_pairs(pairs, option="producer_byte_rate=10mb")
    values = {key: _number(key, text) for key, text in asked.items()}
    _alter(bootstrap, _entity(user, client_id, ip), [(key, value, False) for key, value in values.items()])
    for key, value in values.items():
        typer.echo(f"set {key}={value:g}" if value < 1 else f"set {key}={_plain(value)}")


@app.command("remove", epilog="Example: penstock quota remove --client-id reports consumer_byte_rate")
def remove(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[QUOTA]...", show_default=False, help="All of them if none is named.")
    ] = None,
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Take quotas away. Clients that were muted for them are heard again at once."""
    entity = _entity(user, client_id, ip)
    present = next((quotas for names, quotas in _describe(bootstrap, entity) if names == entity), {})
    missing = [key for key in keys or [] if key not in present]
    if missing or not present:
        which = f" {', '.join(missing)}" if missing else ""
        raise CommandError(f"There is no quota{which} here: 'penstock quota list' shows all.")
    gone = keys or sorted(present)
    _alter(bootstrap, entity, [(key, 0.0, True) for key in gone])
    for key in gone:
        typer.echo(f"removed {key}")


def _entity(user: str | None, client_id: str | None, ip: str | None, *, wanted: bool = True) -> dict[str, str | None]:
    names = {kind: name for kind, name in ((USER, user), (CLIENT_ID, client_id), (IP, ip)) if name is not None}
    if wanted and not names:
        raise CommandError("Say whose quota: --user, --client-id or both, or --ip; each takes a name or 'default'.")
    return {kind: None if name == DEFAULT else name for kind, name in names.items()}


def _number(key: str, text: str) -> float:
    number, factor = text.strip().lower(), 1
    if key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE) and number[-2:] in UNITS:
        number, factor = number[:-2], UNITS[number[-2:]]
    try:
        return float(number) * factor
    except ValueError:
        raise CommandError(f"'{text}' is no number for {key}: write for example {key}=1048576.") from None


def _plain(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _describe(bootstrap: str, entity: dict[str, str | None]) -> list[tuple[dict[str, str | None], dict[str, Any]]]:
    from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
    from kio.static.primitive import i8

    from penstock.cli.direct import ask

    components = tuple(
        ComponentData(entity_type=kind, match_type=i8(1 if name is None else 0), match=name)
        for kind, name in entity.items()
    )
    answer = ask(
        bootstrap, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest(components=components, strict=False)
    )
    if answer.error_code.value:
        raise CommandError(f"{answer.error_message or answer.error_code.name}.")
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: _plain(float(value.value)) for value in entry.values},
        )
        for entry in answer.entries or ()
    ]


def _alter(bootstrap: str, entity: dict[str, str | None], changes: Sequence[tuple[str, float, bool]]) -> None:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
    from kio.static.primitive import f64

    from penstock.cli.direct import ask

    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(OpData(key=key, value=f64(value), remove=gone) for key, value, gone in changes),
    )
    answer = ask(
        bootstrap, ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    )
    for result in answer.entries:
        if result.error_code.value:
            reason = result.error_message or result.error_code.name
            raise CommandError(f"{reason.rstrip('.')} - 'penstock quota set --help' lists the quotas there are.")
