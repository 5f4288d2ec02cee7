"""The cluster that an action talks to: its addresses and the client properties for connecting to it."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from penstock.actions.addresses import parse_addresses
from penstock.actions.client_properties import security_properties
from penstock.actions.errors import CONNECTION_REFUSED, TRANSPORT, UNKNOWN_HOST, ActionError

CONNECT_TIMEOUT_S: Final = 3.0
REQUEST_TIMEOUT_S: Final = 15.0
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Connection:
    """Broker addresses, separated by commas, and client properties under Java's or librdkafka's names."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return parse_addresses(self.bootstrap)

    @property
    def security(self) -> dict[str, str]:
        """The properties that secure a connection."""
        return security_properties(self.properties)


def open_socket(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)


def open_secured_socket(
    host: str, port: int, security: Mapping[str, str], *, timeout_s: float = CONNECT_TIMEOUT_S
) -> socket.socket:
    """Connect, and complete the TLS and SASL handshakes that the properties require."""
    if security.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        opened = socket.create_connection((host, port), timeout=timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened
    from penstock_client.errors import PenstockClientError
    from penstock_client.protocol.connection import Connection as SecuredConnection

    try:
        return SecuredConnection(host, port, security, timeout_s=timeout_s).detach()
    except PenstockClientError as error:
        raise ActionError(f"Cannot connect to {host}:{port}: {error}") from None


def check_reachable(connection: Connection, *, open_socket: Callable[[str, int], socket.socket] = open_socket) -> None:
    """Return if any address accepts a connection; otherwise raise the error of the last one.

    librdkafka reports a refused connection and a refused login only after its timeout. This check reports it
    immediately.
    """
    security = connection.security
    protocol, mechanism = security.get("security.protocol", ""), security.get("sasl.mechanism", "")
    if protocol.upper().startswith("SASL_") and mechanism.upper() in PASSWORD_MECHANISMS:
        open_socket = partial(open_secured_socket, security=security)
    problem: ActionError | None = None
    for host, port in connection.addresses:
        try:
            open_socket(host, port).close()
            return
        except OSError as error:
            problem = connection_failed(host, port, error)
    assert problem is not None, "there is at least one address"
    raise problem


def connection_failed(host: str, port: int, error: OSError) -> ActionError:
    """Return the error to raise when a socket cannot be opened."""
    if isinstance(error, socket.gaierror):
        return ActionError(f"Cannot resolve host name '{host}'.", code=UNKNOWN_HOST)
    if isinstance(error, ConnectionRefusedError):
        return ActionError(f"Connection refused by {host}:{port}.", code=CONNECTION_REFUSED)
    return ActionError(f"Cannot connect to {host}:{port}: {error.strerror or error}.", code=TRANSPORT)
