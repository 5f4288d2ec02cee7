"""penstock console: serve the web console for one or more clusters."""

import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.actions.connection import Connection
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import StopAtEofOption, stop_at_end_of_input

if TYPE_CHECKING:
    from penstock_console.settings import ClusterSettings, ConsoleSettings, PipelineSettings

EXAMPLE = "Example: penstock console --bootstrap localhost:9092 --port 8080"
DEFAULT_PORT = 8080
CREDENTIALS = ("sasl.username", "sasl.password", "sasl.jaas.config")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def console(
    connection: Connection,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster", metavar="NAME=HOST:PORT", help="Another cluster, with the same client properties. Repeatable."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the cluster of --bootstrap in addresses.")] = "local",
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", metavar="NAME", help="Name by which browsers reach the console. Repeatable."),
    ] = None,
    login: Annotated[
        bool, typer.Option("--login", help="Require a login with a user and a password of the cluster.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change.")] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="contents|changes",
            help="Allow record contents or changes without a login on an address that others can reach. Repeatable.",
        ),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option("--mask", metavar="TOPIC:$.FIELD", help="Hide a field of JSON values. Repeatable."),
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="FILE", help="Keep rates and lags across restarts in this file.")
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option("--pipeline", metavar="DIR[=STORAGE]", help="Folder of a pipeline to show. Repeatable."),
    ] = None,
    stop_at_eof: StopAtEofOption = False,
) -> None:
    """Serve a web console for a cluster until SIGTERM or Ctrl-C."""
    try:
        from penstock_console.serve import serve
        from penstock_console.settings import CHANGES, CONTENTS, ConsoleSettings
    except ImportError as error:
        raise CommandError(
            f"The console needs the extra 'console': {error.name} is not installed. "
            "Run: pip install 'penstock[console]'"
        ) from None
    allowed = frozenset(allow or ())
    if not allowed <= {CONTENTS, CHANGES}:
        raise CommandError(f"Invalid --allow '{min(allowed - {CONTENTS, CHANGES})}': expected contents or changes.")
    settings = ConsoleSettings(
        clusters=_clusters(connection, name, cluster or [], login),
        host=host,
        port=port,
        host_names=frozenset((*(host_name or ()), host)),
        read_only=read_only,
        allow=allowed,
        masks=_masks(mask or []),
        history=history,
        pipelines=tuple(map(_pipeline, pipeline or [])),
    )
    if stop_at_eof:
        stop_at_end_of_input()
    _warn(settings)
    _configure_logging()
    serve(settings, ready=lambda address: print(f"console {address}", flush=True))


def _clusters(connection: Connection, name: str, more: list[str], login: bool) -> "dict[str, ClusterSettings]":
    from penstock_console.settings import ClusterSettings

    found = {name: connection}
    for text in more:
        other, equals, bootstrap = text.partition("=")
        if not equals or not bootstrap or other in found:
            raise CommandError(
                f"Invalid --cluster '{text}': expected NAME=HOST:PORT with a new name, for example test=localhost:9093."
            )
        found[other] = Connection(bootstrap, connection.properties)
    clusters = {}
    for each, reached in found.items():
        if not _NAME.fullmatch(each):
            raise CommandError(f"Invalid cluster name '{each}': use letters, digits, '.', '_' and '-'.")
        # Report an invalid address now and not at the first request.
        _ = reached.addresses
        is_sasl = reached.security.get("security.protocol", "").upper().startswith("SASL")
        has_user = any(each in reached.properties for each in CREDENTIALS)
        if login and not is_sasl:
            raise CommandError(
                "--login needs a cluster with SASL: pass -X security.protocol=SASL_SSL and its mechanism."
            )
        requires_login = is_sasl and (login or not has_user)
        if requires_login:
            kept = {key: value for key, value in reached.properties.items() if key not in CREDENTIALS}
            reached = Connection(reached.bootstrap, kept)
        clusters[each] = ClusterSettings(name=each, connection=reached, requires_login=requires_login)
    return clusters


def _masks(texts: list[str]) -> dict[str, tuple[str, ...]]:
    from penstock.actions.masks import parse_path

    masks: dict[str, tuple[str, ...]] = {}
    for text in texts:
        topic, colon, path = text.partition(":")
        if not topic or not colon:
            raise CommandError(f"Invalid --mask '{text}': expected TOPIC:$.FIELD, for example 'orders:$.card'.")
        parse_path(path)
        masks[topic] = (*masks.get(topic, ()), path)
    return masks


def _pipeline(text: str) -> "PipelineSettings":
    from penstock_console.settings import PipelineSettings

    folder, _, storage = text.partition("=")
    return PipelineSettings(Path(folder), storage or None)


def _configure_logging() -> None:
    """Log changes, which are lines of JSON, and warnings to standard error."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _warn(settings: "ConsoleSettings") -> None:
    if settings.is_loopback or all(each.requires_login for each in settings.clusters.values()):
        return
    what = " and ".join(sorted(settings.allow)) or "metadata"
    print(
        f"penstock: everyone who can reach {settings.host}:{settings.port} has access to {what}; use --login or "
        "--host 127.0.0.1 to prevent that",
        file=sys.stderr,
    )
