"""DescribeClientQuotas, versions 0-1: the quotas of the entities that match a filter.

A component matches one name, the default, or any name of a type; an entity must match all
components, and with `strict` it may have no other types. Without components all quotas are returned, or with
`strict` none. Reads the metadata image.
Refuses, for the whole request: INVALID_REQUEST, UNSUPPORTED_VERSION for an unknown type.
"""

from collections.abc import Sequence
from typing import Final

from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.static.primitive import f64

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.errors import InvalidRequest, Refusal, UnsupportedVersion
from penstock.quotas.entity import CLIENT_ID, IP, USER, Entity

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2

_ANY: Final = object()


async def handle(context: Context, request: Request) -> DescribeClientQuotasResponse:
    body: DescribeClientQuotasRequest = request.body
    try:
        wanted = _filter(body.components)
    except Refusal as refusal:
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message, entries=None
        )
    entries = tuple(
        EntryData(
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
            values=tuple(ValueData(key=key, value=f64(value)) for key, value in quotas.items()),
        )
        for entity, quotas in context.quorum.image.quotas.items()
        if _matches(entity, wanted, strict=body.strict)
    )
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message="", entries=entries
    )


def _filter(components: Sequence[ComponentData]) -> dict[str, object]:
    """Return the name that each type must have; each type may occur once."""
    wanted: dict[str, object] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in wanted:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        wanted[kind] = _wanted_name(component)
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return wanted


def _wanted_name(component: ComponentData) -> object:
    match_type, match = component.match_type, component.match
    if match_type == EXACT:
        if match is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return match
    names = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}
    if match_type not in names:
        raise InvalidRequest(f"Unknown match type {match_type}")
    if match is not None:
        raise InvalidRequest(f"Request specified {names[match_type]}, but also specified a match string.")
    return None if match_type == DEFAULT else _ANY


def _matches(entity: Entity, wanted: dict[str, object], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and (not wanted or len(names) != len(wanted)):
        return False
    return all(kind in names and name in (_ANY, names[kind]) for kind, name in wanted.items())
