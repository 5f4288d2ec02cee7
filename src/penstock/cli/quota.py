"""penstock quota: list, set and remove client quotas.

The names are Kafka's: `kafka-configs --entity-type clients|users|ips` shows the same quotas.
"""

from typing import Annotated, Final

import typer

from penstock.actions.connection import Connection
from penstock.cli.arguments import parse_pairs
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.quotas.entity import CLIENT_ID, CONSUMER_BYTE_RATE, IP, PRODUCER_BYTE_RATE, QUOTA_MEANINGS, USER

app = typer.Typer(
    help="List, set and remove rate limits per user, client id or IP address.",
    epilog="Example: penstock quota set --client-id reports consumer_byte_rate=10mb",
    no_args_is_help=True,
)

DEFAULT: Final = "default"
UNITS: Final = {"kb": 1024, "mb": 1024**2, "gb": 1024**3}
KEYS: Final = "; ".join(f"{key}: {meaning}" for key, meaning in QUOTA_MEANINGS.items())

UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="User name, or 'default' for users without a quota."),
]
ClientOption = Annotated[
    str | None,
    typer.Option("--client-id", metavar="ID", help="Client id, or 'default'. With --user: only of that user."),
]
AddressOption = Annotated[
    str | None, typer.Option("--ip", metavar="ADDRESS", help="IP address, or 'default' for addresses without a quota.")
]


@app.command("list", epilog="Example: penstock quota list --user ANONYMOUS")
def list_quotas(
    connection: Connection,
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List quotas: all of them, or those of one user, client id or address."""
    from penstock.actions.quotas import describe_quotas

    entity = _entity(user, client_id, ip, required=False)
    rows = [
        {
            **{kind: DEFAULT if name is None else name for kind, name in found.entity.items()},
            "quota": key,
            "value": value,
        }
        for found in describe_quotas(connection, entity)
        for key, value in sorted(found.quotas.items())
    ]
    show(sorted(rows, key=str), [USER, CLIENT_ID, IP, "quota", "value"], format)
    if not rows and format is Format.TABLE:
        typer.echo("No quota is set. Run 'penstock quota set --help' to see how to set one.", err=True)


@app.command("set", epilog="Example: penstock quota set --user default --client-id reports consumer_byte_rate=10mb")
def set_quotas(
    connection: Connection,
    pairs: Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...", show_default=False, help=KEYS)],
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
) -> None:
    """Set quotas. They apply to connected clients too. Byte rates may end in kb, mb or gb."""
    from penstock.actions import quotas

    texts = parse_pairs(pairs, example="producer_byte_rate=10mb")
    values = {key: _parse_number(key, text) for key, text in texts.items()}
    quotas.set_quotas(connection, _entity(user, client_id, ip), values)
    for key, value in values.items():
        typer.echo(f"set {key}={value:g}" if value < 1 else f"set {key}={quotas.whole_number(value)}")


@app.command("remove", epilog="Example: penstock quota remove --client-id reports consumer_byte_rate")
def remove(
    connection: Connection,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUOTA]...", show_default=False, help="Quota names; all by default."),
    ] = None,
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: AddressOption = None,
) -> None:
    """Remove quotas. Throttled clients continue without delay."""
    from penstock.actions.quotas import remove_quotas

    for key in remove_quotas(connection, _entity(user, client_id, ip), keys or []):
        typer.echo(f"removed {key}")


def _entity(user: str | None, client_id: str | None, ip: str | None, *, required: bool = True) -> dict[str, str | None]:
    names = {kind: name for kind, name in ((USER, user), (CLIENT_ID, client_id), (IP, ip)) if name is not None}
    if required and not names:
        raise CommandError("Pass --user, --client-id, both, or --ip; each takes a name or 'default'.")
    return {kind: None if name == DEFAULT else name for kind, name in names.items()}


def _parse_number(key: str, text: str) -> float:
    number, factor = text.strip().lower(), 1
    if key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE) and number[-2:] in UNITS:
        number, factor = number[:-2], UNITS[number[-2:]]
    try:
        return float(number) * factor
    except ValueError:
        raise CommandError(f"Invalid value '{text}' for {key}: expected a number, for example {key}=1048576.") from None
