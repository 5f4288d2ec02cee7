"""ExpireDelegationToken: sooner, or immediately."""

from datetime import timedelta

import pytest

from penstock.security.principal import ANONYMOUS, Principal, token_owner
from penstock.wire.api import ApiKey
from tests.unit.handlers.test_create_delegation_token import NOW, milliseconds
from tests.unit.handlers.tokens import ALICE, BOB, CAROL, DISABLED, NOT_ALLOWED, TokenNode, renewer

NOT_FOUND, MISMATCH = 62, 63


async def expire(node: TokenNode, client: Principal, hmac: bytes, *, ms: int = -1, version: int = 2) -> tuple[int, int]:
    period = timedelta(milliseconds=ms)
    reply = await node.send(client, ApiKey.EXPIRE_DELEGATION_TOKEN, version, hmac=hmac, expiry_time_period=period)
    return int(reply.error_code), milliseconds(reply.expiry_timestamp)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client", [ALICE, BOB])
async def test_owners_and_renewers_expire_a_token(client: Principal, version: int) -> None:
    node = TokenNode()
    hmac = (await node.create(renewers=[renewer(BOB)])).hmac
    assert await expire(node, CAROL, hmac, version=version) == (MISMATCH, 0)
    assert await expire(node, client, hmac, ms=5, version=version) == (0, NOW + 5)
    assert node.image.tokens
    assert await expire(node, client, hmac, version=version) == (0, NOW)
    assert not node.image.tokens
    assert await expire(node, client, hmac, version=version) == (NOT_FOUND, 0)


@pytest.mark.parametrize("client", [ANONYMOUS, token_owner("alice")])
async def test_anonymous_clients_and_tokens_expire_nothing(client: Principal) -> None:
    node = TokenNode()
    assert await expire(node, client, (await node.create()).hmac) == (NOT_ALLOWED, -1)
    assert node.image.tokens


async def test_without_a_key_nothing_expires() -> None:
    assert await expire(TokenNode(is_enabled=False), ALICE, b"x") == (DISABLED, 0)
