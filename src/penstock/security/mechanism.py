"""What all SASL mechanisms have in common: a step takes the peer's message and returns what to do next."""

from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """The client is not who it claims to be, or does not follow the mechanism. The message is sent to it."""


class Challenge(NamedTuple):
    """The next message; the client must answer."""

    message: bytes


class Accepted(NamedTuple):
    """The client is authenticated."""

    message: bytes
    user: str
    expires_at_ms: int | None = None
    """When its credential expires, in milliseconds since 1970; None if it does not."""
    is_token: bool = False
    """Whether the client logged in with a delegation token of the user."""


class ServerMechanism(Protocol):
    """The server's side of one authentication."""

    def step(self, message: bytes) -> Challenge | Accepted:
        """Take the client's message. Raises AuthenticationFailed."""
        ...


class ClientMechanism(Protocol):
    """The client's side of one authentication."""

    def first(self) -> bytes:
        """Return the first message."""
        ...

    def step(self, message: bytes) -> bytes | None:
        """Take the server's message; return the next one, or None at the end. Raises AuthenticationFailed."""
        ...


def invalid_credentials(mechanism: str) -> AuthenticationFailed:
    """Return the same error for an unknown user and for a wrong password."""
    return AuthenticationFailed(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
