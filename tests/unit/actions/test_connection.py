import socket

import pytest

from penstock.actions.connection import Connection, check_reachable
from penstock.actions.errors import ActionError


def test_one_reachable_address_is_enough() -> None:
    opened: list[tuple[str, int]] = []
    ours, theirs = socket.socketpair()

    def open_socket(host: str, port: int) -> socket.socket:
        opened.append((host, port))
        if host == "a":
            raise ConnectionRefusedError
        return ours

    check_reachable(Connection("a:1,b:2,c:3"), open_socket=open_socket)
    theirs.close()
    assert opened == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (ConnectionRefusedError(), "Connection refused by nowhere:1.", "CONNECTION_REFUSED"),
        (socket.gaierror(), "Cannot resolve host name 'nowhere'.", "UNKNOWN_HOST"),
        (TimeoutError("timed out"), "Cannot connect to nowhere:1: timed out.", "_TRANSPORT"),
    ],
)
def test_an_unreachable_address_says_why(error: OSError, message: str, code: str) -> None:
    def open_socket(host: str, port: int) -> socket.socket:
        raise error

    with pytest.raises(ActionError) as raised:
        check_reachable(Connection("nowhere:1"), open_socket=open_socket)
    assert (str(raised.value), raised.value.code) == (message, code)


def test_only_security_properties_secure_a_connection() -> None:
    connection = Connection("b:1", {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem", "linger.ms": "5"})
    assert connection.security == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}
