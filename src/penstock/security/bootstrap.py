"""The users of a new cluster, as `bootstrap.scram.credentials` lists them. They contain no password.

An entry is `SCRAM-SHA-512=[name=admin,iterations=4096,salt=...,stored_key=...,server_key=...]`, with base64 values.
Refuses: InvalidConfig, without showing a value.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

from penstock.model.errors import InvalidConfig
from penstock.security.scram import HASHES, ITERATIONS_MIN, SALT_SIZE, ScramCredential, credential_from_salted
from penstock.security.scram import salted_password as derive

_ENTRY: Final = re.compile(r"(SCRAM-SHA-256|SCRAM-SHA-512)=\[([^\]]*)\]")
OPTION: Final = "bootstrap.scram.credentials"


class FirstUser(NamedTuple):
    name: str
    mechanism: str
    credential: ScramCredential


def parse_first_users(text: str) -> list[FirstUser]:
    found = []
    rest = text.strip()
    while rest:
        match = _ENTRY.match(rest)
        if match is None:
            raise InvalidConfig(f"{OPTION} cannot be parsed")
        found.append(_parse(match[1], match[2]))
        rest = rest[match.end() :].lstrip(", ")
    return found


def render_first_users(users: list[FirstUser]) -> str:
    return ",".join(_render(user) for user in users)


def make_first_users(name: str, password: str, salts: list[bytes]) -> list[FirstUser]:
    """Return the credentials of a user for every mechanism; one salt for each."""
    found = []
    for mechanism, salt in zip(HASHES, salts, strict=True):
        assert len(salt) == SALT_SIZE, "all salts have the same size"
        salted = derive(mechanism, password, salt, ITERATIONS_MIN)
        found.append(FirstUser(name, mechanism, credential_from_salted(mechanism, salt, ITERATIONS_MIN, salted)))
    return found


def _render(user: FirstUser) -> str:
    salt, stored, server, iterations = user.credential
    texts = [base64.b64encode(each).decode() for each in (salt, stored, server)]
    return (
        f"{user.mechanism}=[name={user.name},iterations={iterations},"
        f"salt={texts[0]},stored_key={texts[1]},server_key={texts[2]}]"
    )


def _parse(mechanism: str, text: str) -> FirstUser:
    pairs = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    try:
        salt, stored, server = (
            base64.b64decode(pairs[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        return FirstUser(pairs["name"], mechanism, ScramCredential(salt, stored, server, int(pairs["iterations"])))
    except (KeyError, ValueError, binascii.Error):
        raise InvalidConfig(f"{OPTION}: an entry is incomplete or malformed") from None
