"""DescribeClientQuotas through its handler."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.handlers import describe_client_quotas
from penstock.metadata.records import ClientQuotaRecord, QuotaEntityPart
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of

EXACT, DEFAULT, ANY = 0, 1, 2
INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35
ALICE, EVERYBODY, ALICE_C, ADDRESS = (
    {"user": "alice"},
    {"user": None},
    {"user": "alice", "client-id": "c"},
    {"ip": "1.2.3.4"},
)


def quotas_of(*entities: Mapping[str, str | None]) -> FakeNode:
    node = FakeNode()
    for number, entity in enumerate(entities, 1):
        parts = tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity.items())
        node.quorum.put([ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=float(number), remove=False)])
    return node


async def describe(node: FakeNode, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    listed = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components]
    body = body_of(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=listed, strict=strict)
    return await node.ask(describe_client_quotas.handle, ApiKey.DESCRIBE_CLIENT_QUOTAS, body)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [1.0, 2.0, 3.0, 4.0]),
        ([], True, []),
        ([("user", EXACT, "alice")], False, [1.0, 3.0]),
        ([("user", EXACT, "alice")], True, [1.0]),
        ([("user", DEFAULT, None)], False, [2.0]),
        ([("user", ANY, None)], True, [1.0, 2.0]),
        ([("user", ANY, None), ("client-id", EXACT, "c")], True, [3.0]),
        ([("client-id", EXACT, "d")], False, []),
        ([("ip", ANY, None)], False, [4.0]),
    ],
)
async def test_an_entity_must_match_every_component(
    components: list[tuple[str, int, str | None]], strict: bool, found: list[float]
) -> None:
    reply = await describe(quotas_of(ALICE, EVERYBODY, ALICE_C, ADDRESS), *components, strict=strict)
    assert reply.error_code == 0
    assert sorted(value.value for entry in reply.entries for value in entry.values) == found


async def test_an_entity_is_described_with_its_names_and_values() -> None:
    (entry,) = (await describe(quotas_of(EVERYBODY))).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", None)]
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 1.0)]


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", EXACT, "a")], INVALID_REQUEST, "Invalid empty entity type."),
        (
            [("user", EXACT, "a"), ("user", EXACT, "b")],
            INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", EXACT, "a")], UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        ),
        (
            [("user", EXACT, None)],
            INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "a")],
            INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", ANY, "a")],
            INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 7, None)], INVALID_REQUEST, "Unknown match type 7"),
    ],
)
async def test_an_invalid_filter_is_refused(
    components: list[tuple[str, int, str | None]], error: int, message: str
) -> None:
    reply = await describe(quotas_of(ALICE), *components)
    assert (reply.error_code, reply.error_message, reply.entries) == (error, message, None)
