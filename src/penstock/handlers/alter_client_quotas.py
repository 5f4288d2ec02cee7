"""AlterClientQuotas, versions 0-1: sets and removes quotas of users, client ids and IP addresses.

Each entity succeeds or fails separately. With validate_only nothing changes. Changes are in force when
the response is sent: clients that the old quota muted are unmuted immediately.
Goes to controller/quotas.py. Refuses, per entity: INVALID_REQUEST.
"""

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntryData as AskedEntry
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData

from penstock.controller.quotas import QuotaChanges, QuotaResult, decide_alter_quotas
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.errors import Refusal
from penstock.quotas.entity import entity_of


async def handle(context: Context, request: Request) -> AlterClientQuotasResponse:
    body: AlterClientQuotasRequest = request.body
    requested = [_changes(entry) for entry in body.entries]
    try:
        results = await context.controller.run(
            lambda image: decide_alter_quotas(image, requested, validate_only=body.validate_only)
        )
    except Refusal as refusal:
        results = tuple(QuotaResult(changes.entity, refusal) for changes in requested)
    return AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=tuple(map(_entity, results)))


def _changes(entry: AskedEntry) -> QuotaChanges:
    return QuotaChanges(
        entity_of({part.entity_type: part.entity_name for part in entry.entity}),
        tuple((change.key, None if change.remove else change.value) for change in entry.ops),
    )


def _entity(result: QuotaResult) -> EntryData:
    return EntryData(
        error_code=NO_ERROR if result.refusal is None else failed(result.refusal),
        error_message=None if result.refusal is None else result.refusal.message,
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in result.entity),
    )
