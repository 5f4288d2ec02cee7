"""Decisions on client quotas: valid entities, keys and values.

Each entity is decided separately: a refused one does not affect the others. The result is a
ClientQuotaRecord for each value that changes. Commits nothing.
Refuses, as the result of its entity: InvalidRequest, with Kafka's messages.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from math import fmod
from typing import Final, NamedTuple

from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import Image
from penstock.metadata.records import ClientQuotaRecord, MetadataRecord, QuotaEntityPart
from penstock.model.errors import InvalidRequest, PolicyViolation, Refusal
from penstock.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
)

RECORDS_PER_REQUEST_MAX: Final = 10_000
FRACTION_MAX: Final = 1e-6

_INT: Final = ("an INT", 2**31 - 1)
_LONG: Final = ("a LONG", 2**63 - 1)
_CLIENT_KEYS: Final[Mapping[str, tuple[str, int] | None]] = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_ADDRESS_KEYS: Final[Mapping[str, tuple[str, int] | None]] = {CONNECTION_CREATION_RATE: _INT}


class QuotaChanges(NamedTuple):
    """The changes for one entity; the value None removes a quota."""

    entity: Entity
    changes: tuple[tuple[str, float | None], ...]


class QuotaResult(NamedTuple):
    entity: Entity
    refusal: Refusal | None


def decide_alter_quotas(
    image: Image, requests: Sequence[QuotaChanges], *, validate_only: bool
) -> ControllerDecision[tuple[QuotaResult, ...]]:
    """Decide on the quotas of each entity; a repeated entity is refused."""
    records: list[MetadataRecord] = []
    refusals: dict[Entity, Refusal | None] = {}
    for entity, changes in requests:
        try:
            if entity in refusals or len({key for key, _ in changes}) < len(changes):
                raise InvalidRequest(f"Ignoring duplicate entity {describe(entity)}")
            keys = _keys_of(entity)
            for key, value in changes:
                if value is not None:
                    _check_value(keys, key, value)
        except Refusal as refusal:
            refusals[entity] = refusal
            continue
        refusals[entity] = None
        records.extend(_difference(entity, image.quotas.get(entity, {}), changes))
        if len(records) > RECORDS_PER_REQUEST_MAX:
            raise PolicyViolation("Excessively large number of quotas per request.")
    results = tuple(QuotaResult(entity, refusal) for entity, refusal in refusals.items())
    return ControllerDecision(() if validate_only else records, results)


def describe(entity: Entity) -> str:
    """Return the entity as Kafka prints it."""
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"


def _keys_of(entity: Entity) -> Mapping[str, tuple[str, int] | None]:
    """Return the quotas that are valid for the entity."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return _CLIENT_KEYS
    if len(names) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    if names[IP] is not None and not _is_address(names[IP] or ""):
        raise InvalidRequest(f"{names[IP]} is not a valid IP or resolvable host.")
    return _ADDRESS_KEYS


def _is_address(text: str) -> bool:
    # Kafka would resolve a host name; the result of a name server must not influence a replicated decision.
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(keys: Mapping[str, tuple[str, int] | None], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequest(f"Invalid configuration key {key}")
    # Written so that NaN is refused too.
    if not value > 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    whole = keys[key]
    if whole is None:
        return
    kind, most = whole
    if value > most:
        raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
    if fmod(value, 1.0) > FRACTION_MAX:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def _difference(
    entity: Entity, current: Mapping[str, float], changes: Sequence[tuple[str, float | None]]
) -> list[ClientQuotaRecord]:
    parts = tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity)
    return [
        ClientQuotaRecord(entity=parts, key=key, remove=True)
        if value is None
        else ClientQuotaRecord(entity=parts, key=key, value=value)
        for key, value in changes
        if current.get(key) != value
    ]
