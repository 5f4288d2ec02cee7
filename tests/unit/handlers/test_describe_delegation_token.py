"""DescribeDelegationToken: who sees which tokens."""

import pytest

from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.security.principal import ANONYMOUS, Principal, token_owner
from penstock.wire.api import ApiKey
from tests.unit.handlers.tokens import ADMIN, ALICE, BOB, CAROL, DISABLED, NOT_ALLOWED, TokenNode, renewer

OF_ALL = Acl(
    ResourceType.USER, "*", PatternType.LITERAL, "User:carol", "*", Operation.DESCRIBE_TOKENS, Permission.ALLOW
)
EVERY_ID = Acl(
    ResourceType.DELEGATION_TOKEN, "*", PatternType.LITERAL, "User:carol", "*", Operation.DESCRIBE, Permission.ALLOW
)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_token_is_described_in_every_version(version: int) -> None:
    node = TokenNode()
    created = await node.create(renewers=[renewer(BOB)])
    (token,) = (await node.send(ALICE, ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None)).tokens
    assert (token.principal_type, token.principal_name, token.hmac) == ("User", "alice", created.hmac)
    assert [(each.principal_type, each.principal_name) for each in token.renewers] == [("User", "bob")]


async def test_clients_see_the_tokens_that_they_own_or_may_renew() -> None:
    node = TokenNode(())
    one = (await node.create(ALICE, renewers=[renewer(BOB)])).token_id
    two = (await node.create(BOB)).token_id
    assert await node.described(ALICE) == [("alice", one)]
    assert await node.described(BOB) == [("alice", one), ("bob", two)]
    assert await node.described(BOB, ALICE) == [("alice", one)]
    assert await node.described(ALICE, BOB) == [("alice", one)], "bob may renew it"
    assert await node.described(CAROL) == []
    assert len(await node.described(ADMIN)) == 2


async def test_an_empty_list_of_owners_finds_nothing() -> None:
    node = TokenNode()
    await node.create()
    reply = await node.send(ALICE, ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=[])
    assert (int(reply.error_code), reply.tokens) == (0, ())


@pytest.mark.parametrize("acl", [OF_ALL, EVERY_ID])
async def test_rights_show_the_tokens_of_others_but_not_of_super_users(acl: Acl) -> None:
    node = TokenNode((acl,))
    one = (await node.create(ALICE)).token_id
    await node.create(ADMIN)
    assert await node.described(CAROL) == [("alice", one)]
    assert await node.described(BOB) == []
    assert len(await node.described(ADMIN)) == 2


@pytest.mark.parametrize("client", [ANONYMOUS, token_owner("alice")])
async def test_anonymous_clients_and_tokens_see_nothing(client: Principal) -> None:
    node = TokenNode()
    await node.create()
    reply = await node.send(client, ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=None)
    assert (int(reply.error_code), reply.tokens) == (NOT_ALLOWED, ())


async def test_without_a_key_there_is_nothing_to_see() -> None:
    reply = await TokenNode(is_enabled=False).send(ALICE, ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=None)
    assert int(reply.error_code) == DISABLED
