"""The client side of SASL PLAIN and SCRAM (RFC 5802).

`exchange` is a generator: it yields each message to send and is sent the server's response. Credentials come from
`sasl.username` and `sasl.password`, or from `sasl.jaas.config` as in Kafka's documentation. There, `tokenauth="true"`
says that they are the id and the HMAC of a delegation token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator, Mapping

from penstock_client.errors import PenstockClientError


def credentials(settings: Mapping[str, str]) -> tuple[str, str]:
    """Return the user and the password from either setting."""
    jaas = settings.get("sasl.jaas.config", "")
    found = dict(re.findall(r'\b(username|password)\s*=\s*"([^"]*)"', jaas))
    user = settings.get("sasl.username", found.get("username"))
    password = settings.get("sasl.password", found.get("password"))
    if user is None or password is None:
        raise PenstockClientError("SASL requires credentials: set kafka.sasl.username and kafka.sasl.password")
    return user, password


def is_token(settings: Mapping[str, str]) -> bool:
    """Return whether the credentials are those of a delegation token."""
    found = re.search(r'\btokenauth\s*=\s*"?(\w+)"?', settings.get("sasl.jaas.config", ""))
    return found is not None and found[1].lower() == "true"


def exchange(mechanism: str, user: str, password: str, *, token: bool = False) -> Generator[bytes, bytes, None]:
    if mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        return _scram("sha" + mechanism[-3:], user, password, extensions=",tokenauth=true" if token else "")
    if token:
        raise PenstockClientError(
            f"a delegation token cannot log in with SASL mechanism {mechanism!r}: use SCRAM-SHA-256 or SCRAM-SHA-512"
        )
    if mechanism == "PLAIN":
        return _plain(user, password)
    raise PenstockClientError(
        f"SASL mechanism {mechanism!r} is not supported: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    )


def _plain(user: str, password: str) -> Generator[bytes, bytes, None]:
    yield b"\0".join((b"", user.encode(), password.encode()))


def _scram(hash_name: str, user: str, password: str, *, extensions: str) -> Generator[bytes, bytes, None]:
    name = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    first = f"n={name},r={nonce}{extensions}"
    server_first = (yield f"n,,{first}".encode()).decode()
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    if not fields.get("r", "").startswith(nonce):
        raise PenstockClientError("SCRAM: the server's nonce does not continue ours; do not trust this broker")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    without_proof = f"c=biws,r={fields['r']}"
    signed = ",".join((first, server_first, without_proof)).encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, signed, hash_name)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    answer = (yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode()
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    expected = base64.b64encode(hmac.digest(server_key, signed, hash_name)).decode()
    if not hmac.compare_digest(answer.encode(), f"v={expected}".encode()):
        raise PenstockClientError(
            "SCRAM: the server did not prove that it knows the password; do not trust this broker"
        )
