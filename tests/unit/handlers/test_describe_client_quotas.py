"""DescribeClientQuotas through its handler."""

from typing import Any

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.static.primitive import f64, i8

from penstock.handlers import alter_client_quotas, describe_client_quotas
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode


async def alter(node: FakeNode, **changes: float) -> Any:
    entry = EntryData(
        entity=(EntityData(entity_type="user", entity_name=None),),
        ops=tuple(OpData(key=key, value=f64(value), remove=False) for key, value in changes.items()),
    )
    body = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    return await node.ask(alter_client_quotas.handle, ApiKey.ALTER_CLIENT_QUOTAS, body)


async def test_what_is_set_is_described() -> None:
    node = FakeNode()
    [told] = (await alter(node, producer_byte_rate=100.0)).entries
    assert told.error_code.value == 0
    asked = ComponentData(entity_type="user", match_type=i8(1), match=None)
    body = DescribeClientQuotasRequest(components=(asked,), strict=True)
    [entry] = (await node.ask(describe_client_quotas.handle, ApiKey.DESCRIBE_CLIENT_QUOTAS, body)).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", None)]
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 100.0)]
