"""SASL PLAIN (RFC 4616): the password itself, so use it over TLS only.

An unknown user and a wrong password take the same steps: one HMAC of the password that the client sent, compared with
the HMAC of the user's password or of a random one. Refuses: AuthenticationFailed.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from penstock.security.mechanism import Accepted, AuthenticationFailed

NAME: Final = "PLAIN"
_PART_COUNT: Final = 3
_INVALID: Final = "Authentication failed: Invalid username or password"


class PlainServer:
    """The users of one listener. An exchange has one message, so all connections share it."""

    def __init__(self, passwords: Mapping[str, str], *, unknown: bytes) -> None:
        """Create one with the passwords of the users; `unknown` is a random key."""
        self._key = unknown
        self._digests = {name: _digest(unknown, password.encode()) for name, password in passwords.items()}
        self._unknown = _digest(unknown, unknown)

    def step(self, message: bytes) -> Accepted:
        parts = message.split(b"\0")
        if len(parts) != _PART_COUNT:
            raise AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected {_PART_COUNT} tokens, got {min(len(parts), 4)}"
            )
        try:
            authzid, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise AuthenticationFailed(_INVALID) from None
        if not name:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        expected = self._digests.get(name, self._unknown)
        # Digests have one size, so the time does not depend on the lengths of the passwords.
        is_right = hmac.compare_digest(expected, _digest(self._key, password.encode()))
        if not (is_right and name in self._digests):
            raise AuthenticationFailed(_INVALID)
        # After the password: what a client asks for must not reveal whether the user exists.
        if authzid and authzid != name:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Accepted(b"", name)


class PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self._message = b"\0".join((b"", user.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def step(self, message: bytes) -> bytes | None:
        return None  # the server has accepted the password


def _digest(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, hashlib.sha256)
