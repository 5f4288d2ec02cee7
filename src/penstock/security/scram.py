"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), server and client.

The server knows StoredKey and ServerKey, not the password, and computes no PBKDF2. An unknown user gets a credential
that is derived from its name (unknown_users.py), and fails at the same message as a wrong password, after the same
computations. The channel binding `c=` and the nonce must be exactly those of this exchange (CVE-2024-56128).
Refuses: AuthenticationFailed.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.security.mechanism import Accepted, AuthenticationFailed, Challenge, invalid_credentials

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MECHANISM_IDS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
"""The numbers of the mechanisms in records and requests."""
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
SALT_SIZE: Final = 24

_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = r"(?:[^,=\0]|=2C|=3D)+"
_EXTENSIONS: Final = r"((?:,[A-Za-z]+=[^,\0]*)*)"
_FIRST: Final = re.compile(f"(n,(?:a=({_NAME}))?,)(n=({_NAME}),r=({_NONCE}){_EXTENSIONS})")
_FINAL: Final = re.compile(f"(c=([A-Za-z0-9+/=]+),r=({_NONCE}){_EXTENSIONS}),p=([A-Za-z0-9+/=]+)")
_SERVER_FIRST: Final = re.compile(f"r=({_NONCE}),s=([A-Za-z0-9+/=]+),i=([0-9]{{1,9}}){_EXTENSIONS}")


_TOKEN: Final = "tokenauth"
"""The extension of the client's first message that announces a delegation token (KIP-48)."""


class ScramCredential(NamedTuple):
    """What the server stores of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class TokenLogin(NamedTuple):
    """What a login with a delegation token needs to know of the token."""

    credential: ScramCredential
    owner: str
    expires_at_ms: int


FindCredential = Callable[[str], ScramCredential | None]
FindToken = Callable[[str], TokenLogin | None]
InventCredential = Callable[[str], ScramCredential]
"""Returns a credential that no password matches, always the same for a name."""
DerivePassword = Callable[[str, str, bytes, int], bytes]


def credential_from_salted(mechanism: str, salt: bytes, iterations: int, salted: bytes) -> ScramCredential:
    """Return the credential of a salted password."""
    name = HASHES[mechanism]
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored, hmac.digest(salted, b"Server Key", name), iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive the salted password. This takes milliseconds on purpose."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


class ScramServer:
    def __init__(
        self,
        mechanism: str,
        find: FindCredential,
        *,
        nonce: str,
        invent: InventCredential,
        find_token: FindToken = lambda token_id: None,
        invent_token: InventCredential | None = None,
    ) -> None:
        """Create one for one exchange; `nonce` must be new and random, the others are for unknown users and tokens."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._server_nonce = nonce
        self._invent = invent
        self._find_token = find_token
        self._invent_token = invent_token or invent
        self._credential: ScramCredential | None = None
        self._user = self._nonce = self._binding = ""
        self._first: str = ""
        self._is_known = False
        self._token: TokenLogin | None = None

    def step(self, message: bytes) -> Challenge | Accepted:
        """Take the client's message. As in Kafka, a malformed one gets the same error as a wrong password."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise invalid_credentials(self._mechanism) from None
        return self._begin(text) if self._credential is None else self._finish(text, self._credential)

    def _begin(self, text: str) -> Challenge:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise invalid_credentials(self._mechanism)
        header, authzid, bare, name, nonce, extensions = match.groups()
        user = _unescape(name)
        if authzid is not None and _unescape(authzid) != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        known, invented = self._look_up_token(user) if _is_token(extensions) else self._look_up(user)
        self._is_known = known is not None
        self._credential = credential = known or invented
        self._user, self._nonce = user, nonce + self._server_nonce
        self._binding = base64.b64encode(header.encode()).decode()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._first = f"{bare},{answer}"
        return Challenge(answer.encode())

    def _look_up(self, user: str) -> tuple[ScramCredential | None, ScramCredential]:
        # Invented for known users as well: otherwise the time would show which users exist.
        return self._find(user), self._invent(user)

    def _look_up_token(self, token_id: str) -> tuple[ScramCredential | None, ScramCredential]:
        self._token = self._find_token(token_id)
        return None if self._token is None else self._token.credential, self._invent_token(token_id)

    def _finish(self, text: str, credential: ScramCredential) -> Accepted:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise invalid_credentials(self._mechanism)
        without_proof, binding, nonce, _, proof = match.groups()
        if not hmac.compare_digest(nonce, self._nonce) or not hmac.compare_digest(binding, self._binding):
            raise invalid_credentials(self._mechanism)
        signed = f"{self._first},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        try:
            given = _decode(proof)
        except AuthenticationFailed:
            raise invalid_credentials(self._mechanism) from None
        if len(given) != len(signature):
            raise invalid_credentials(self._mechanism)
        client_key = bytes(left ^ right for left, right in zip(given, signature, strict=True))
        stored = hashlib.new(self._hash, client_key).digest()
        is_right = hmac.compare_digest(stored, credential.stored_key)
        if not (is_right and self._is_known):
            raise invalid_credentials(self._mechanism)
        answer = base64.b64encode(hmac.digest(credential.server_key, signed, self._hash)).decode()
        message = f"v={answer}".encode()
        if self._token is not None:
            return Accepted(message, self._token.owner, self._token.expires_at_ms, is_token=True)
        return Accepted(message, self._user)


class ScramClient:
    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        *,
        nonce: str,
        derive: DerivePassword | None = None,
        is_token: bool = False,
    ) -> None:
        """Create one for one exchange; `nonce` must be new and random, `derive` may remember salted passwords.

        With `is_token` the user is the id of a delegation token, and the password its HMAC in base64.
        """
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._derive = derive or salted_password
        self._nonce = nonce
        self._bare = f"n={_escape(user)},r={nonce}" + (f",{_TOKEN}=true" if is_token else "")
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def step(self, message: bytes) -> bytes | None:
        text = message.decode("utf-8", "replace")
        if self._expected is None:
            return self._prove(text)
        self._verify(text, self._expected)
        return None

    def _prove(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationFailed("the server's first SCRAM message is malformed")
        nonce, salt, iterations = match[1], _decode(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("the server's nonce does not continue the client's")
        if not ITERATIONS_MIN <= iterations <= 1_000_000:
            raise AuthenticationFailed(f"the server requests {iterations} iterations")
        salted = self._derive(self._mechanism, self._password, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), signed, self._hash)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._expected = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), signed, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, text: str, expected: bytes) -> None:
        if not hmac.compare_digest(text.encode(), b"v=" + base64.b64encode(expected)):
            raise AuthenticationFailed("the server did not prove that it knows the password")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("Invalid SCRAM message: it contains invalid base64") from None


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _is_token(extensions: str) -> bool:
    values = dict(each.split("=", 1) for each in extensions.split(",") if each)
    return values.get(_TOKEN, "").lower() == "true"


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
