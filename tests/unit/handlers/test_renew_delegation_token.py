"""RenewDelegationToken: the time it returns, and what it refuses."""

from datetime import timedelta

import pytest

from penstock.security.principal import ANONYMOUS, Principal, token_owner
from penstock.wire.api import ApiKey
from tests.unit.handlers.test_create_delegation_token import NOW, milliseconds
from tests.unit.handlers.tokens import ALICE, BOB, CAROL, DISABLED, NOT_ALLOWED, TokenNode, renewer

NOT_FOUND, MISMATCH = 62, 63


async def renew(node: TokenNode, client: Principal, hmac: bytes, version: int = 2) -> tuple[int, int]:
    reply = await node.send(
        client, ApiKey.RENEW_DELEGATION_TOKEN, version, hmac=hmac, renew_period=timedelta(seconds=1)
    )
    return int(reply.error_code), milliseconds(reply.expiry_timestamp)


@pytest.mark.parametrize("version", [1, 2])
async def test_owners_and_renewers_renew(version: int) -> None:
    node = TokenNode()
    hmac = (await node.create(renewers=[renewer(BOB)])).hmac
    for client in (ALICE, BOB):
        assert await renew(node, client, hmac, version) == (0, NOW + 1000)
    assert await renew(node, CAROL, hmac, version) == (MISMATCH, 0)
    assert await renew(node, ALICE, b"x", version) == (NOT_FOUND, 0)


@pytest.mark.parametrize("client", [ANONYMOUS, token_owner("alice")])
async def test_anonymous_clients_and_tokens_renew_nothing(client: Principal) -> None:
    node = TokenNode()
    assert await renew(node, client, (await node.create()).hmac) == (NOT_ALLOWED, -1)


async def test_without_a_key_nothing_is_renewed() -> None:
    assert await renew(TokenNode(is_enabled=False), ALICE, b"x") == (DISABLED, 0)
