"""Client quotas: rate limits per user, client id or IP address, under Kafka's names."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.static.primitive import f64, i8

from penstock.actions.cluster_client import open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.wire.api import ApiKey

Entity = dict[str, str | None]
"""The name by entity type; None is the default entity."""


class EntityQuotas(NamedTuple):
    entity: Entity
    quotas: dict[str, int | float]


def describe_quotas(connection: Connection, entity: Mapping[str, str | None]) -> list[EntityQuotas]:
    """Return the quotas of all entities that match; an empty entity matches all."""
    components = tuple(
        ComponentData(entity_type=kind, match_type=i8(1 if name is None else 0), match=name)
        for kind, name in entity.items()
    )
    request = DescribeClientQuotasRequest(components=components, strict=False)
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    if answer.error_code.value:
        raise ActionError(f"Cannot list quotas: {(answer.error_message or answer.error_code.name).rstrip('.')}.")
    return [
        EntityQuotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: whole_number(float(value.value)) for value in entry.values},
        )
        for entry in answer.entries or ()
    ]


def set_quotas(connection: Connection, entity: Mapping[str, str | None], values: Mapping[str, float]) -> None:
    _alter(connection, entity, [OpData(key=key, value=f64(value), remove=False) for key, value in values.items()])


def remove_quotas(connection: Connection, entity: Mapping[str, str | None], keys: Sequence[str]) -> list[str]:
    """Remove quotas of an entity, all of them if no keys are given; return the removed keys."""
    present = next((found.quotas for found in describe_quotas(connection, entity) if found.entity == entity), {})
    missing = [key for key in keys if key not in present]
    if missing:
        raise ActionError(f"Quota '{', '.join(missing)}' is not set for this entity.", code="UNKNOWN_QUOTA")
    if not present:
        raise ActionError("No quota is set for this entity.", code="UNKNOWN_QUOTA")
    removed = list(keys) or sorted(present)
    _alter(connection, entity, [OpData(key=key, value=f64(0.0), remove=True) for key in removed])
    return removed


def whole_number(value: float) -> int | float:
    """Return an integer if the value is one."""
    return int(value) if value.is_integer() else value


def _alter(connection: Connection, entity: Mapping[str, str | None], operations: Sequence[OpData]) -> None:
    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(operations),
    )
    with open_cluster(connection) as cluster:
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
        answer = cluster.send_any(ApiKey.ALTER_CLIENT_QUOTAS, request)
    for result in answer.entries:
        if result.error_code.value:
            reason = result.error_message or result.error_code.name
            raise ActionError(f"Cannot change quotas: {reason.rstrip('.')}.", code="INVALID_QUOTA")
