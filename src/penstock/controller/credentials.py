"""Decisions on the SCRAM credentials of users.

Each user is decided separately: a refused one does not affect the others. A request carries salted passwords, so
nothing here takes long. The first credential also creates the secret from which the credentials of unknown users are
derived (security/unknown_users.py). Commits nothing.
Refuses, as the result of its user: UnacceptableCredential, UnsupportedSaslMechanism, ResourceNotFound,
DuplicateResource, with Kafka's messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.config.broker_security import UNKNOWN_USERS_SECRET
from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import BROKER, ConfigResource, Image
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from penstock.model.errors import (
    DuplicateResource,
    Refusal,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from penstock.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISM_IDS, credential_from_salted

ALL_BROKERS: Final = ConfigResource(BROKER, "")
_MECHANISMS: Final = {number: name for name, number in MECHANISM_IDS.items()}


class Deletion(NamedTuple):
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


class CredentialResult(NamedTuple):
    name: str
    refusal: Refusal | None


def secret_record(secret: str) -> ConfigRecord:
    """Return the record of the cluster's secret for unknown users."""
    return ConfigRecord(
        resource_type=ALL_BROKERS.type, resource_name=ALL_BROKERS.name, name=UNKNOWN_USERS_SECRET, value=secret
    )


def decide_alter_credentials(
    image: Image, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion], *, new_secret: str
) -> ControllerDecision[tuple[CredentialResult, ...]]:
    """Decide on the credentials of each user; a user with a refused change is not changed at all."""
    records: list[MetadataRecord] = []
    results: dict[str, Refusal | None] = {}
    seen: set[Deletion] = set()
    changes: list[tuple[Deletion, Upsertion | None]] = [(each, None) for each in deletions]
    changes += [(Deletion(each.name, each.mechanism), each) for each in upsertions]
    for key, upsertion in changes:
        if results.setdefault(key.name, None) is not None:
            continue  # the first error of a user is reported
        try:
            if key in seen:
                raise DuplicateResource("A user credential cannot be altered twice in the same request")
            _check(image, key, upsertion)
        except Refusal as refusal:
            results[key.name] = refusal
        seen.add(key)
    for key, upsertion in changes:
        if results[key.name] is None:
            records.append(_record(key, upsertion))
    if records and UNKNOWN_USERS_SECRET not in image.config(ALL_BROKERS):
        records.append(secret_record(new_secret))
    return ControllerDecision(records, tuple(CredentialResult(name, refusal) for name, refusal in results.items()))


def _check(image: Image, key: Deletion, upsertion: Upsertion | None) -> None:
    if not key.name:
        raise UnacceptableCredential("Username must not be empty")
    if key.mechanism not in _MECHANISMS:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if upsertion is None:
        if (key.name, key.mechanism) not in image.credentials:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        return
    if upsertion.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")
    if not upsertion.salt or not upsertion.salted_password:
        raise UnacceptableCredential("Salt and salted password must not be empty")


def _record(key: Deletion, upsertion: Upsertion | None) -> MetadataRecord:
    if upsertion is None:
        return RemoveUserScramCredentialRecord(name=key.name, mechanism=key.mechanism)
    credential = credential_from_salted(
        _MECHANISMS[key.mechanism], upsertion.salt, upsertion.iterations, upsertion.salted_password
    )
    return UserScramCredentialRecord(
        name=key.name,
        mechanism=key.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
