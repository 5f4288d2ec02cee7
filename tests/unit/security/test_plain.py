"""SASL PLAIN."""

import pytest

from penstock.security.mechanism import AuthenticationFailed
from penstock.security.plain import PlainClient, PlainServer

USERS = {"alice": "secret", "späti": "ünïcode"}


def server() -> PlainServer:
    return PlainServer(USERS, unknown=b"k" * 32)


@pytest.mark.parametrize("name", USERS)
def test_the_right_password_is_accepted(name: str) -> None:
    assert server().step(PlainClient(name, USERS[name]).first()).user == name
    assert PlainClient(name, "x").step(b"") is None


def test_the_authorization_id_may_be_the_user() -> None:
    assert server().step(b"alice\0alice\0secret").user == "alice"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"bob\0nobody\0secret", "Invalid username or password"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0\xff\0x", "Invalid username or password"),
        (b"bob\0alice\0secret", "different from username"),
    ],
)
def test_any_other_message_fails(message: bytes, error: str) -> None:
    with pytest.raises(AuthenticationFailed, match=error):
        server().step(message)


def test_the_key_for_unknown_users_is_no_password() -> None:
    with pytest.raises(AuthenticationFailed):
        PlainServer({}, unknown=b"kkkk").step(b"\0nobody\0kkkk")
