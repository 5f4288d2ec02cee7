"""Delegation tokens of a cluster: create, list, renew and expire them, and the client properties of a login."""

import base64
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from penstock.actions.acl_text import parse_one_principal
from penstock.actions.cluster_client import open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.security.principal import USER
from penstock.wire.api import ApiKey

_DEFAULT: Final = timedelta(milliseconds=-1)
_MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN: Final = ("sasl.jaas.config", "sasl.username", "sasl.password", "sasl.mechanism")
_REASONS: Final = {
    61: "delegation tokens are disabled",
    64: "anonymous clients and clients that logged in with a token may not manage tokens",
    65: "this user may not create tokens of that owner",
}


class Token(NamedTuple):
    id: str
    hmac: str
    """The password, in base64."""
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued: datetime
    expires: datetime
    max: datetime


def create_token(
    connection: Connection, *, owner: str | None = None, renewers: Sequence[str] = (), lifetime: timedelta | None = None
) -> Token:
    """Create a token of the user of the connection, or of another owner."""
    name = None if owner is None else _name(owner)
    names = [_name(renewer) for renewer in renewers]
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if name is None else USER,
        owner_principal_name=name,
        renewers=tuple(CreatableRenewers(principal_type=USER, principal_name=each) for each in names),
        max_lifetime=_period(lifetime),
    )
    answer = _send(connection, ApiKey.CREATE_DELEGATION_TOKEN, request, "Cannot create a token")
    requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
    return Token(
        answer.token_id,
        base64.b64encode(answer.hmac).decode(),
        f"{answer.principal_type}:{answer.principal_name}",
        requester,
        tuple(f"{USER}:{each}" for each in names),
        answer.issue_timestamp,
        answer.expiry_timestamp,
        answer.max_timestamp,
    )


def list_tokens(connection: Connection, *, owner: str | None = None) -> list[Token]:
    """Return the tokens that the user of the connection may see."""
    owners = None
    if owner is not None:
        owners = (DescribeDelegationTokenOwner(principal_type=USER, principal_name=_name(owner)),)
    request = DescribeDelegationTokenRequest(owners=owners)
    answer = _send(connection, ApiKey.DESCRIBE_DELEGATION_TOKEN, request, "Cannot list tokens")
    tokens = [
        Token(
            token.token_id,
            base64.b64encode(token.hmac).decode(),
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
            _date(token.issue_timestamp),
            _date(token.expiry_timestamp),
            _date(token.max_timestamp),
        )
        for token in answer.tokens
    ]
    return sorted(tokens, key=lambda token: (token.owner, token.expires, token.id))


def renew_token(connection: Connection, token_id: str, *, period: timedelta | None = None) -> datetime:
    """Extend a token; return when it expires."""
    token = find_token(connection, token_id)
    request = RenewDelegationTokenRequest(hmac=base64.b64decode(token.hmac), renew_period=_period(period))
    answer = _send(connection, ApiKey.RENEW_DELEGATION_TOKEN, request, f"Cannot renew token '{token_id}'")
    expires: datetime = answer.expiry_timestamp
    return expires


def expire_token(connection: Connection, token_id: str, *, period: timedelta | None = None) -> datetime:
    """Let a token expire after a period, or remove it; return when it expires."""
    token = find_token(connection, token_id)
    request = ExpireDelegationTokenRequest(hmac=base64.b64decode(token.hmac), expiry_time_period=_period(period))
    answer = _send(connection, ApiKey.EXPIRE_DELEGATION_TOKEN, request, f"Cannot expire token '{token_id}'")
    expires: datetime = answer.expiry_timestamp
    return expires


def find_token(connection: Connection, token_id: str) -> Token:
    """Return the token with an id: requests name tokens by their secret, which should not be an argument."""
    found = {token.id: token for token in list_tokens(connection)}.get(token_id)
    if found is None:
        raise ActionError(f"Token '{token_id}' does not exist, or this user may not see it.", code="UNKNOWN_TOKEN")
    return found


def save_login(file: Path, connection: Connection, token: Token) -> None:
    """Write client properties that log in with a token; only the owner of the file can read it."""
    text = "".join(f"{name}={value}\n" for name, value in login_properties(connection, token).items())
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ActionError(f"Cannot write {file}: {error.strerror}. Choose another file.") from None
    with open(descriptor, "w", encoding="utf-8") as out:
        out.write(text)


def login_properties(connection: Connection, token: Token) -> Mapping[str, str]:
    """Return client properties under Java's names that log in with a token."""
    properties = {name: value for name, value in connection.security.items() if name not in _LOGIN}
    protocol = properties.get("security.protocol", "").upper()
    if protocol == "SSL":
        # A login with a certificate created the token, and a login with SCRAM uses it.
        properties["security.protocol"] = "SASL_SSL"
    authorities = properties.pop("ssl.ca.location", None)
    if authorities is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
    return {
        "bootstrap.servers": connection.bootstrap,
        **properties,
        "sasl.mechanism": _MECHANISM,
        "sasl.jaas.config": f'{_MODULE} required username="{token.id}" password="{token.hmac}" tokenauth="true";',
    }


def check_file(file: Path) -> None:
    """Reject a file that exists before a token is created for it."""
    if file.exists():
        raise ActionError(f"Cannot write {file}: it exists. Choose another file.")


def _send(connection: Connection, api_key: int, request: Any, what: str) -> Any:
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(api_key, request)
    error = answer.error_code
    if error.value:
        reason = _REASONS.get(error.value, error.name.replace("_", " "))
        raise ActionError(f"{what}: {reason}.", code=error.name.upper())
    return answer


def _name(owner: str) -> str:
    return parse_one_principal(owner).partition(":")[2]


def _period(value: timedelta | None) -> i64Timedelta:
    return i64Timedelta.parse(_DEFAULT if value is None else value)


def _date(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
