"""AlterClientQuotas through its handler."""

from typing import Any

import pytest

from penstock.handlers import alter_client_quotas
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of

INVALID_REQUEST = 42
USER: dict[str, str | None] = {"user": None}
Entry = tuple[dict[str, str | None], dict[str, float | None]]


async def alter(node: FakeNode, *entries: Entry, validate_only: bool = False) -> Any:
    """Set quotas, or remove those that are None."""
    listed = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()],
        }
        for entity, values in entries
    ]
    body = body_of(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=listed, validate_only=validate_only)
    reply = await node.ask(alter_client_quotas.handle, ApiKey.ALTER_CLIENT_QUOTAS, body)
    return [(int(each.error_code), each.error_message) for each in reply.entries]


async def test_a_quota_is_set_and_removed() -> None:
    node = FakeNode()
    assert await alter(node, (USER, {"producer_byte_rate": 100.0})) == [(0, None)]
    assert node.image.quotas == {(("user", None),): {"producer_byte_rate": 100.0}}
    assert await alter(node, (USER, {"producer_byte_rate": None})) == [(0, None)]
    assert node.image.quotas == {}


async def test_validate_only_changes_nothing() -> None:
    node = FakeNode()
    assert await alter(node, (USER, {"producer_byte_rate": 100.0}), validate_only=True) == [(0, None)]
    assert node.image.quotas == {}


@pytest.mark.parametrize(
    ("entity", "values", "message"),
    [
        (USER, {"producer_byte_rate": 0.0}, "Quota producer_byte_rate must be greater than 0"),
        (USER, {"nope": 5.0}, "Invalid configuration key nope"),
        (USER, {"connection_creation_rate": 5.0}, "Invalid configuration key connection_creation_rate"),
        ({"ip": "no address"}, {"connection_creation_rate": 5.0}, "no address is not a valid IP or resolvable host."),
    ],
)
async def test_an_invalid_quota_is_refused_and_a_valid_one_is_set(
    entity: dict[str, str | None], values: dict[str, float | None], message: str
) -> None:
    node = FakeNode()
    found = await alter(node, (entity, values), ({"client-id": "c"}, {"producer_byte_rate": 5.0}))
    assert found == [(INVALID_REQUEST, message), (0, None)]
    assert list(node.image.quotas) == [(("client-id", "c"),)]


async def test_a_controller_that_cannot_commit_refuses_every_entity() -> None:
    node = FakeNode()
    node.quorum.refusal = StorageError("full")
    found = await alter(node, (USER, {"producer_byte_rate": 5.0}), ({"client-id": "c"}, {"producer_byte_rate": 5.0}))
    assert found == [(56, "full"), (56, "full")]
    node.quorum.is_active = False
    assert [code for code, _ in await alter(node, (USER, {"producer_byte_rate": 5.0}))] == [41]
