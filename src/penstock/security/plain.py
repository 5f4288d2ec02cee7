"""SASL PLAIN (RFC 4616): the password itself, so use it over TLS only.

The password of an unknown user is compared with a random one, in the same time. Refuses: AuthenticationFailed.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from penstock.security.mechanism import Accepted, AuthenticationFailed

NAME: Final = "PLAIN"
_PART_COUNT: Final = 3


class PlainServer:
    def __init__(self, passwords: Mapping[str, str], *, unknown: bytes) -> None:
        """Create one for the users of a listener; `unknown` is a random key that is used for unknown users."""
        self._passwords = passwords
        self._unknown = unknown

    def step(self, message: bytes) -> Accepted:
        parts = message.split(b"\0")
        if len(parts) != _PART_COUNT:
            raise AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected {_PART_COUNT} tokens, got {min(len(parts), 4)}"
            )
        try:
            authzid, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise AuthenticationFailed("Authentication failed: the message is not valid UTF-8") from None
        if not name:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = self._passwords.get(name)
        expected = self._unknown if known is None else known.encode()
        # Digests have one size, so the time does not depend on the lengths of the passwords.
        is_right = hmac.compare_digest(_digest(self._unknown, expected), _digest(self._unknown, password.encode()))
        if known is None or not is_right:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
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
