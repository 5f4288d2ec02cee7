"""Client properties of the commands that speak with a cluster: --command-config FILE and -X name=value.

`add_to` puts both options on every command that has --bootstrap; while such a command runs, `given` are its
properties. `for_librdkafka` puts Java's names into librdkafka's words, so that one file serves both; `security` are
those of a plain connection. Refuses with CommandError what a command sets by itself, and Java's key stores.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.errors import CommandError

CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="PENSTOCK_COMMAND_CONFIG",
        help="Client properties, name=value a line, as Kafka's tools take them: security.protocol, sasl.*, ssl.* ...",
    ),
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X", "--client-property", metavar="NAME=VALUE", help="One client property, over those of the file; repeatable."
    ),
]

# What a command must know of its own client. In a file they are meant for another program.
_OWNED: Final = frozenset({
    "acks", "auto.offset.reset", "bootstrap.servers", "client.id", "compression.type", "enable.auto.commit",
    "enable.auto.offset.store", "enable.idempotence", "enable.partition.eof", "group.id", "isolation.level",
    "transactional.id",
})  # fmt: skip
_OF_JAVA_ALONE: Final = frozenset({
    "key.deserializer", "key.serializer", "ssl.enabled.protocols", "ssl.keystore.type", "ssl.protocol",
    "ssl.truststore.password", "ssl.truststore.type", "value.deserializer", "value.serializer",
})  # fmt: skip
_JAVA_STORES: Final = (".jks", ".p12", ".pfx")
_SECURITY: Final = ("security.", "sasl.", "ssl.")

_given: ContextVar[Mapping[str, str]] = ContextVar("client properties", default={})  # noqa: B039 (never changed)


def given() -> Mapping[str, str]:
    """The properties of the command that runs, by the names under which they were given."""
    return _given.get()


def security(properties: Mapping[str, str] | None = None) -> dict[str, str]:
    """Those that say how a connection is secured: of the command that runs, or of these."""
    everything = given() if properties is None else properties
    return {name: value for name, value in everything.items() if name.startswith(_SECURITY)}


def add_to(app: typer.Typer) -> None:
    """Put the two options on every command of the tree that has --bootstrap."""
    for command in app.registered_commands:
        if command.callback is not None and "bootstrap" in inspect.signature(command.callback).parameters:
            command.callback = _with_properties(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_to(group.typer_instance)


def _with_properties(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def command(
        *arguments: Any, command_config: Path | None = None, client_property: list[str] | None = None, **named: Any
    ) -> Any:
        token = _given.set(read(command_config, client_property or []))
        try:
            return function(*arguments, **named)
        finally:
            _given.reset(token)

    more = {"command_config": CommandConfigOption, "client_property": PropertyOption}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in more.items()
    ]
    command.__annotations__ = {**function.__annotations__, **more}
    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    return command


def read(file: Path | None, pairs: list[str]) -> dict[str, str]:
    """The properties of a file, and over them those of the command line."""
    from penstock.actions.connection import parse_pairs

    found = {} if file is None else read_file(file, option="--command-config")
    own = parse_pairs(pairs, option="-X security.protocol=SSL")
    for name in own:
        if name in _OWNED:
            raise CommandError(f"-X {name} cannot be given: the command sets it by itself, see its other options.")
    return {**{name: value for name, value in found.items() if name not in _OWNED}, **own}


def read_file(path: Path, *, option: str) -> dict[str, str]:
    """The properties in a file that was given with an option."""
    from penstock.config.properties import parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not text: give a file of key=value lines to {option}.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror}): check the path given to {option}.") from None


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """The same in librdkafka's words; its own names pass as they are."""
    found = {name: value for name, value in properties.items() if name not in _OF_JAVA_ALONE}
    login = found.pop("sasl.jaas.config", None)
    if login is not None and found.get("sasl.mechanism", "").upper() != "GSSAPI":
        found["sasl.username"], found["sasl.password"] = _credentials({**found, "sasl.jaas.config": login})
    authorities = found.pop("ssl.truststore.location", None)
    if authorities is not None:
        if authorities.lower().endswith(_JAVA_STORES):
            raise CommandError(
                f"ssl.truststore.location {authorities} is a Java key store: give a PEM file, which "
                "'keytool -exportcert -rfc' writes."
            )
        found.setdefault("ssl.ca.location", authorities)
    keys = found.get("ssl.keystore.location", "")
    if keys.lower().endswith(".jks"):
        raise CommandError(f"ssl.keystore.location {keys} is a Java key store: give a PEM or PKCS#12 file.")
    if keys and not keys.lower().endswith(_JAVA_STORES):
        del found["ssl.keystore.location"]
        found.setdefault("ssl.certificate.location", keys)
        found.setdefault("ssl.key.location", keys)
    # Java turns the check of the name off with an empty value.
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _credentials(properties: Mapping[str, str]) -> tuple[str, str]:
    from penstock_client.errors import PenstockClientError
    from penstock_client.protocol.sasl import credentials

    try:
        return credentials(properties)
    except PenstockClientError:
        raise CommandError(
            'sasl.jaas.config names no user: write username="..." password="...", or set sasl.username and '
            "sasl.password."
        ) from None
