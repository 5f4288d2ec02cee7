"""The identity of a client, and its encoding in an Envelope.

`User:ANONYMOUS` is a client that did not have to authenticate. Refuses: InvalidPrincipal.
"""

from typing import Final, NamedTuple

from penstock.model.errors import Corruption, PenstockError
from penstock.wire.fields import BOOLEAN, STRING, Field, Layout, Reader

USER: Final = "User"
_VERSION: Final = b"\x00\x00"


class InvalidPrincipal(PenstockError):
    """The bytes do not encode a principal."""


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @property
    def is_token(self) -> bool:
        """Return whether it logged in with a delegation token. As in Kafka, comparisons ignore that."""
        return False


class TokenPrincipal(Principal):
    """The owner of a delegation token, logged in with the token."""

    __slots__ = ()

    @property
    def is_token(self) -> bool:
        return True


class _Encoded(NamedTuple):
    """Kafka's DefaultPrincipalData."""

    type: str
    name: str
    token_authenticated: bool


_LAYOUT: Final = Layout(
    _Encoded, 0, Field("type", STRING), Field("name", STRING), Field("token_authenticated", BOOLEAN)
)

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def user(name: str) -> Principal:
    return Principal(USER, name)


def token_owner(name: str) -> Principal:
    """Return a user that has logged in with a delegation token."""
    return TokenPrincipal(USER, name)


def parse_principal(text: str) -> Principal:
    """Return the principal in a text such as `User:a`."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def parse_principals(text: str) -> frozenset[Principal]:
    """Return the principals in a list such as `User:a;User:b`, the format of super.users."""
    return frozenset(parse_principal(entry.strip()) for entry in text.split(";") if entry.strip())


def encode_principal(principal: Principal) -> bytes:
    out = bytearray(_VERSION)
    _LAYOUT.write(out, _Encoded(principal.type, principal.name, principal.is_token))
    return bytes(out)


def decode_principal(data: bytes) -> Principal:
    if data[:2] != _VERSION:
        raise InvalidPrincipal("the version of the principal is unknown")
    try:
        found: _Encoded = _LAYOUT.read(Reader(data[2:]), 0)
    except (Corruption, ValueError, IndexError) as problem:
        raise InvalidPrincipal(f"cannot decode the principal: {problem}") from None
    return (TokenPrincipal if found.token_authenticated else Principal)(found.type, found.name)
