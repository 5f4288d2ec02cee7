"""How the client commands reach a cluster: addresses, settings for librdkafka, and its errors in words.

Asks first with a plain connection, because "nothing listens there" is worth knowing at once
and librdkafka only says so after its timeout. How a connection is secured, properties.py says.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.actions import client_properties
from penstock.cli.errors import CommandError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    from penstock.actions.cluster_client import Cluster

T = TypeVar("T")

CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 15.0
DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_PORT = 9092

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="PENSTOCK_BOOTSTRAP",
        help="A broker of the cluster; more than one with commas between them.",
    ),
]

# By the names of librdkafka's codes; the words follow "what happened" and say what to do.
_NEXT_STEPS: Mapping[str, str] = {
    "TOPIC_ALREADY_EXISTS": "choose another name, or pass --if-not-exists",
    "UNKNOWN_TOPIC_OR_PART": "'penstock topic list' shows the topics there are",
    "_UNKNOWN_TOPIC": "'penstock topic list' shows the topics there are",
    "_UNKNOWN_PARTITION": "'penstock topic describe TOPIC' shows its partitions",
    "INVALID_PARTITIONS": "a topic can gain partitions but not lose them; give the new total",
    "INVALID_REPLICATION_FACTOR": "ask for no more replicas than there are brokers",
    "TOPIC_EXCEPTION": "use letters, digits, '.', '_' and '-', at most 249 of them",
    "MSG_SIZE_TOO_LARGE": "raise max.message.bytes of the topic, or send smaller records",
    "TOPIC_DELETION_DISABLED": "start the broker with --set delete.topic.enable=true",
    "_TRANSPORT": "'penstock doctor' looks for the reason",
    "_ALL_BROKERS_DOWN": "'penstock doctor' looks for the reason",
    "_TIMED_OUT": "'penstock doctor' looks for the reason",
    "REQUEST_TIMED_OUT": "try again; if it stays so, 'penstock doctor' looks for the reason",
    "_MSG_TIMED_OUT": "the broker did not take the record in time; 'penstock doctor' looks for the reason",
    "GROUP_ID_NOT_FOUND": "'penstock group list' shows the groups there are",
    "NON_EMPTY_GROUP": "stop its consumers first; 'penstock group describe' shows who they are",
    "UNKNOWN_MEMBER_ID": "stop the group's consumers first; 'penstock group describe' shows who they are",
    "REBALANCE_IN_PROGRESS": "try again in a moment",
    "COORDINATOR_NOT_AVAILABLE": "try again in a moment; if it stays so, 'penstock doctor' looks for the reason",
    "COORDINATOR_LOAD_IN_PROGRESS": "try again in a moment",
    "NOT_COORDINATOR": "try again in a moment",
    "INVALID_GROUP_ID": "give the group a name that is not empty",
    "KAFKA_STORAGE_ERROR": "the broker's disk refused it; its log and 'penstock log verify' say more",
}


def split_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT, [V6]:PORT or a bare host."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text.strip(), str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise CommandError(f"'{text}' is no address: write HOST:PORT, for example {DEFAULT_BOOTSTRAP}.")
    return host, int(port)


def bootstrap_addresses(bootstrap: str) -> list[tuple[str, int]]:
    return [split_address(part) for part in bootstrap.split(",") if part.strip()] or [split_address(bootstrap)]


def connect(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)


def dial_secured(host: str, port: int) -> socket.socket:
    """Connect as the command's client properties say; over what is returned the first request can be sent."""
    settings = properties.security()
    if settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return connect(host, port)
    from penstock.actions import cluster_client

    try:
        return cluster.dial_secured(host, port, settings, timeout_s=CONNECT_TIMEOUT_S)
    except cluster.ClusterError as problem:
        raise CommandError(str(problem)) from None


def reach(bootstrap: str, *, dial: Callable[[str, int], socket.socket] = connect) -> None:
    """Return if any of the addresses takes a connection; else say why the last did not."""
    why = ""
    for host, port in bootstrap_addresses(bootstrap):
        try:
            dial(host, port).close()
            return
        except socket.gaierror:
            why = f"The name '{host}' is not known here: check the spelling of --bootstrap."
        except ConnectionRefusedError:
            why = (
                f"Nothing listens at {host}:{port}: start a broker with 'penstock start', or name another address "
                "with --bootstrap."
            )
        except OSError as error:
            why = (
                f"{host}:{port} cannot be reached ({error.strerror or error}): 'penstock doctor' looks for the reason."
            )
    raise CommandError(why)


def client_settings(bootstrap: str, given: Mapping[str, str] | None = None, /, **more: object) -> dict[str, Any]:
    """Return librdkafka's configuration, after making sure that somebody is there.

    `given` are client properties that win over the rest: those of the command unless others are named.
    """
    reach(bootstrap)
    secured = properties.for_librdkafka(properties.given() if given is None else given)
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "penstock-cli",
        "log_level": 0,
        "error_cb": lambda error: None,
        "socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
        **more,
        **secured,
    }


def open_cluster(bootstrap: str) -> "Cluster":
    """All brokers of the cluster, for what librdkafka has no name for."""
    from penstock.actions.cluster_client import Cluster

    return Cluster(bootstrap, properties.security())


def open_admin(bootstrap: str) -> "AdminClient":
    from confluent_kafka.admin import AdminClient

    return AdminClient(client_settings(bootstrap))


def wait(future: "Future[T]", *, about: str) -> T:
    """Wait for an admin answer; an error names what it is about."""
    from confluent_kafka import KafkaException

    try:
        return future.result(timeout=REQUEST_TIMEOUT_S * 2)
    except KafkaException as error:
        raise CommandError(explain(error.args[0], about=about)) from None
    except FutureTimeoutError:
        raise CommandError(f"{about}: no answer in time; 'penstock doctor' looks for the reason.") from None


def wait_all(futures: Mapping[str, "Future[T]"], *, done: Callable[[str], None] | None = None) -> dict[str, T]:
    """Wait for all answers, then fail with every error at once; `done` hears of each that went well."""
    results: dict[str, T] = {}
    problems: list[str] = []
    for name, future in futures.items():
        try:
            results[name] = wait(future, about=name)
        except CommandError as problem:
            problems.append(str(problem))
        else:
            if done is not None:
                done(name)
    if problems:
        raise CommandError(" | ".join(problems))
    return results


def explain(error: "KafkaError", *, about: str = "") -> str:
    """Put librdkafka's error into a sentence with the next step in it."""
    said = (error.str() or error.name()).strip().rstrip(".")
    next_step = _NEXT_STEPS.get(error.name())
    prefix = f"{about}: " if about else ""
    return f"{prefix}{said}{f' - {next_step}' if next_step else ''}."


def parse_pairs(texts: Sequence[str], *, option: str) -> dict[str, str]:
    """Read key=value arguments."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"'{text}' is not of the form key=value: write for example {option}.")
        pairs[key.strip()] = value
    return pairs
