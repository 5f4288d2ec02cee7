"""SASL OAUTHBEARER (RFC 7628): the client sends a signed token.

A token that is not accepted is answered with a JSON document, which the client must acknowledge before the
authentication fails, as the RFC requires. Refuses: AuthenticationFailed.
"""

import re
from collections.abc import Callable
from typing import Final

from penstock.security.jwt import Claims, InvalidToken
from penstock.security.mechanism import Accepted, AuthenticationFailed, Challenge, invalid_credentials

NAME: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_INVALID: Final = b'{"status":"invalid_token"}'
_MESSAGE: Final = re.compile(r"n,(?:a=([^,\0]+))?,\x01((?:[A-Za-z]+=[^\0\x01]*\x01)*)\x01")
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+)", re.IGNORECASE)

VerifyToken = Callable[[str], Claims]
"""Returns the claims of a token. Raises InvalidToken."""


class OauthBearerServer:
    def __init__(self, verify: VerifyToken) -> None:
        self._verify = verify
        self._is_rejected = False

    def step(self, message: bytes) -> Challenge | Accepted:
        if self._is_rejected:
            raise invalid_credentials(NAME)
        try:
            match = _MESSAGE.fullmatch(message.decode())
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise AuthenticationFailed("Invalid OAUTHBEARER client first message")
        authzid, pairs = match[1], dict(pair.split("=", 1) for pair in match[2].split(_SEPARATOR) if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise AuthenticationFailed("Invalid OAUTHBEARER client first message: 'auth' not specified")
        try:
            claims = self._verify(bearer[1])
        except InvalidToken:
            self._is_rejected = True
            return Challenge(_INVALID)
        if authzid is not None and authzid.replace("=2C", ",").replace("=3D", "=") != claims.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from the token's user"
            )
        return Accepted(b"", claims.user, claims.expires_at_ms)
