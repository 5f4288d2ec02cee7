"""The entities of client quotas, their keys, and which quota applies to a client.

Pure. An entity is a tuple of (type, name) pairs in the order of the types. The name None is the default of
that type, which applies to every client without a more specific quota. Refuses nothing.
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
QUOTA_MEANINGS: Final = {
    PRODUCER_BYTE_RATE: "produced bytes per second",
    CONSUMER_BYTE_RATE: "fetched bytes per second",
    REQUEST_PERCENTAGE: "percentage of a broker's request time",
    CONTROLLER_MUTATION_RATE: "created or deleted partitions per second",
    CONNECTION_CREATION_RATE: "new connections per second (--ip only)",
}

ANONYMOUS: Final = "ANONYMOUS"
"""The principal of unauthenticated clients."""

Sharer = tuple[str | None, str | None]
"""The clients that share one bucket: a user and a client id; None stands for all users or all client ids."""


def entity_of(names: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(names.items(), key=lambda pair: pair[0]))


def find_quota(quotas: Quotas, key: str, user: str, client_id: str) -> tuple[float, Sharer] | None:
    """Return the quota of a client and the clients that share it, or None if it has no quota."""
    for entity, sharer in _in_order(user, client_id):
        value = quotas.get(entity, {}).get(key)
        if value is not None:
            return value, sharer
    return None


def _in_order(user: str, client_id: str) -> Iterator[tuple[Entity, Sharer]]:
    """Yield entities from the most specific to the most general, in Kafka's order."""
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
    """Return how many connections per second the address may open, or None if it has no quota."""
    for name in (host, None):
        value = quotas.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return value
    return None
