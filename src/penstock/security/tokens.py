"""Delegation tokens: their values, and the secrets that follow from them (docs/internals/authorization.md).

A token's password is the HMAC of its id, so nothing secret is stored. `TokenSecrets` computes HMACs and SCRAM
credentials when they are needed. Values in, values out: controller/tokens.py decides on changes. Refuses nothing.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.security.principal import Principal
from penstock.security.scram import ITERATIONS_MIN, ScramCredential, credential_from_salted, salted_password

CREDENTIALS_MAX: Final = 4096
"""How many SCRAM credentials are kept: each takes milliseconds to compute."""


class DelegationToken(NamedTuple):
    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at_ms: int
    max_at_ms: int
    expires_at_ms: int

    def is_valid(self, now_ms: int) -> bool:
        return now_ms <= self.max_at_ms and now_ms <= self.expires_at_ms

    def belongs_to(self, principal: Principal) -> bool:
        """Return whether the principal owns the token or may renew it."""
        return principal == self.owner or principal in self.renewers


Tokens = Mapping[str, DelegationToken]
"""Tokens by id."""


class TokenSecrets:
    """The passwords of tokens, for one secret key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._ids: dict[bytes, str] = {}
        self._indexed: Tokens | None = None
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def hmac(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def find(self, tokens: Tokens, given: bytes) -> DelegationToken | None:
        """Return the token with an HMAC, or None."""
        # The mapping is replaced, never changed. Most changes keep most tokens.
        if self._indexed is not tokens:
            known = {token_id: digest for digest, token_id in self._ids.items()}
            self._ids = {known.get(each) or _digest(self.hmac(each)): each for each in tokens}
            self._indexed = tokens
        token_id = self._ids.get(_digest(given))
        return None if token_id is None else tokens[token_id]

    def credential(self, mechanism: str, token_id: str, salt: bytes) -> ScramCredential:
        """Return the SCRAM credential of a token."""
        found = self._credentials.get((mechanism, token_id))
        if found is None or found.salt != salt:
            password = base64.b64encode(self.hmac(token_id)).decode()
            salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
            found = credential_from_salted(mechanism, salt, ITERATIONS_MIN, salted)
            if len(self._credentials) >= CREDENTIALS_MAX:
                self._credentials.clear()
            self._credentials[mechanism, token_id] = found
        return found


def _digest(secret: bytes) -> bytes:
    """Return what a secret is looked up by: the time of a lookup then says nothing about the secret."""
    return hashlib.sha256(secret).digest()
