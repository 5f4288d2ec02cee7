"""AlterClientQuotas through its handler."""

from typing import Any

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.static.primitive import f64

from penstock.handlers import alter_client_quotas
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode


async def alter(node: FakeNode, **changes: float) -> Any:
    entry = EntryData(
        entity=(EntityData(entity_type="user", entity_name=None),),
        ops=tuple(OpData(key=key, value=f64(value), remove=False) for key, value in changes.items()),
    )
    body = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    return await node.ask(alter_client_quotas.handle, ApiKey.ALTER_CLIENT_QUOTAS, body)


async def test_a_quota_of_zero_is_refused() -> None:
    node = FakeNode()
    [told] = (await alter(node, producer_byte_rate=0.0)).entries
    assert (told.error_code.value, told.error_message) == (42, "Quota producer_byte_rate must be greater than 0")
    assert node.image.quotas == {}
