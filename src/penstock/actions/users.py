"""Users that log in with SCRAM. Passwords are salted here, and never leave this process."""

import secrets
from typing import Final, NamedTuple

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.static.primitive import i8, i32

from penstock.actions.cluster_client import open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import UNKNOWN_USER, ActionError
from penstock.security.scram import ITERATIONS_MIN, MECHANISM_IDS, SALT_SIZE, salted_password
from penstock.wire.api import ApiKey

_NAMES: Final = {number: name for name, number in MECHANISM_IDS.items()}


class User(NamedTuple):
    name: str
    mechanisms: tuple[str, ...]


def generate_password() -> str:
    return secrets.token_urlsafe(24)


def list_users(connection: Connection) -> list[User]:
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=None)
        )
    if answer.error_code.value:
        raise ActionError(f"Cannot list users: {(answer.error_message or answer.error_code.name).rstrip('.')}.")
    return [
        User(result.user, tuple(_NAMES.get(info.mechanism, "unknown") for info in result.credential_infos))
        for result in sorted(answer.results, key=lambda result: result.user)
    ]


def add_user(connection: Connection, name: str, password: str) -> None:
    if any(user.name == name for user in list_users(connection)):
        raise ActionError(f"User '{name}' already exists.", code="USER_EXISTS")
    _set_password(connection, name, password)


def change_password(connection: Connection, name: str, password: str) -> None:
    _existing(connection, name)
    _set_password(connection, name, password)


def remove_user(connection: Connection, name: str) -> None:
    user = _existing(connection, name)
    for mechanism in user.mechanisms:
        deletion = ScramCredentialDeletion(name=name, mechanism=i8(MECHANISM_IDS[mechanism]))
        _alter(connection, AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()))


def _existing(connection: Connection, name: str) -> User:
    found = next((user for user in list_users(connection) if user.name == name), None)
    if found is None:
        raise ActionError(f"User '{name}' does not exist.", code=UNKNOWN_USER, about=name)
    return found


def _set_password(connection: Connection, name: str, password: str) -> None:
    if not password:
        raise ActionError("The password is empty.")
    # Apache Kafka rejects a request that names a user twice, so each mechanism has its own.
    for mechanism, number in MECHANISM_IDS.items():
        salt = secrets.token_bytes(SALT_SIZE)
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=i8(number),
            iterations=i32(ITERATIONS_MIN),
            salt=salt,
            salted_password=salted_password(mechanism, password, salt, ITERATIONS_MIN),
        )
        _alter(connection, AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)))


def _alter(connection: Connection, request: AlterUserScramCredentialsRequest) -> None:
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    for result in answer.results:
        if result.error_code.value:
            reason = (result.error_message or result.error_code.name).rstrip(".")
            raise ActionError(f"Cannot change user '{result.user}': {reason}.")
