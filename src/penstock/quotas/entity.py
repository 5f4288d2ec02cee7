"""Whose quota it is: the entities of client quotas, their keys, and which of them holds for a client.

Pure. An entity is a tuple of (type, name) pairs in the order of the types; the name None is the default
of that type, which holds for everybody who has none of their own. Refuses nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Final

Entity = tuple[tuple[str, str | None], ...]
Quotas = Mapping[Entity, Mapping[str, float]]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

ANONYMOUS: Final = "ANONYMOUS"
"""Who everybody is as long as nobody has to say who they are."""

Sharer = tuple[str | None, str | None]
"""Who share one bucket: a user and a client id; None stands for all of them together."""


def entity_of(names: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(names.items(), key=lambda pair: pair[0]))


def find_quota(quotas: Quotas, key: str, user: str, client_id: str) -> tuple[float, Sharer] | None:
    """The quota that holds for a client, and with whom it is shared; None if there is none."""
    for entity, sharer in _in_order(user, client_id):
        value = quotas.get(entity, {}).get(key)
        if value is not None:
            return value, sharer
    return None


def _in_order(user: str, client_id: str) -> Iterator[tuple[Entity, Sharer]]:
    """From the closest to the most general, as Kafka looks."""
    each, user_alone, client_alone = (user, client_id), (user, None), (None, client_id)
    yield ((CLIENT_ID, client_id), (USER, user)), each
    yield ((CLIENT_ID, None), (USER, user)), each
    yield ((USER, user),), user_alone
    yield ((CLIENT_ID, client_id), (USER, None)), each
    yield ((CLIENT_ID, None), (USER, None)), each
    yield ((USER, None),), user_alone
    yield ((CLIENT_ID, client_id),), client_alone
    yield ((CLIENT_ID, None),), client_alone


def find_connection_rate(quotas: Quotas, host: str) -> float | None:
    """How many connections a second the address may open; None if there is no quota for it."""
    for name in (host, None):
        value = quotas.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return value
    return None
