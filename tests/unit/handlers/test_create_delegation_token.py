"""CreateDelegationToken: who may create tokens, and for whom."""

from datetime import timedelta

import pytest

from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.security.principal import ANONYMOUS, Principal, token_owner
from penstock.wire.api import ApiKey
from tests.unit.handlers.tokens import ADMIN, ALICE, BOB, CAROL, DAY_MS, DISABLED, NOT_ALLOWED, TokenNode, renewer

NOT_AUTHORIZED, INVALID_TYPE, POLICY = 65, 67, 44
NOW = 1_000_000
FOR_BOB = Acl(
    ResourceType.USER, "User:bob", PatternType.LITERAL, "User:alice", "*", Operation.CREATE_TOKENS, Permission.ALLOW
)
FOR_ALL = FOR_BOB._replace(resource_name="*")


def milliseconds(time: object) -> int:
    from penstock.handlers.support.entities import EPOCH, MILLISECOND

    return -1 if time is None else (time - EPOCH) // MILLISECOND  # type: ignore[operator]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_token_is_created_in_every_version(version: int) -> None:
    node = TokenNode()
    reply = await node.send(
        ALICE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        version,
        owner_principal_type=None,
        owner_principal_name=None,
        renewers=[renewer(BOB)],
        max_lifetime=timedelta(milliseconds=-1),
    )
    assert (int(reply.error_code), reply.principal_type, reply.principal_name) == (0, "User", "alice")
    times = reply.issue_timestamp, reply.expiry_timestamp, reply.max_timestamp
    assert [milliseconds(each) for each in times] == [NOW, NOW + DAY_MS, NOW + 7 * DAY_MS]
    token = node.image.tokens[reply.token_id]
    assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
    assert node.context.token_secrets is not None
    assert reply.hmac == node.context.token_secrets.hmac(reply.token_id)


@pytest.mark.parametrize("client", [ANONYMOUS, token_owner("alice")])
async def test_anonymous_clients_and_tokens_get_none(client: Principal) -> None:
    node = TokenNode()
    reply = await node.create(client, BOB)
    assert (int(reply.error_code), reply.token_id, reply.hmac) == (NOT_ALLOWED, "", b"")
    assert [milliseconds(each) for each in (reply.issue_timestamp, reply.max_timestamp)] == [-1, -1]
    assert (reply.principal_name, reply.token_requester_principal_name) == ("bob", client.name)
    assert not node.image.tokens


async def test_without_a_key_there_are_no_tokens() -> None:
    reply = await TokenNode(is_enabled=False).create()
    assert (int(reply.error_code), milliseconds(reply.max_timestamp)) == (DISABLED, 0)


async def test_a_token_for_another_user_needs_a_right() -> None:
    node = TokenNode((FOR_BOB,))
    assert int((await node.create(ALICE, CAROL)).error_code) == NOT_AUTHORIZED
    reply = await node.create(ALICE, BOB)
    assert (int(reply.error_code), reply.principal_name, reply.token_requester_principal_name) == (0, "bob", "alice")
    assert node.image.tokens[reply.token_id].owner == BOB
    assert int((await node.create(ALICE, ALICE)).error_code) == 0
    assert int((await node.create(ADMIN, CAROL)).error_code) == 0
    assert int((await TokenNode().create(ALICE, CAROL)).error_code) == 0, "without an authorizer"


async def test_no_right_allows_a_token_of_a_super_user() -> None:
    node = TokenNode((FOR_ALL,))
    assert int((await node.create(ALICE, ADMIN)).error_code) == NOT_AUTHORIZED
    assert int((await node.create(ALICE, BOB)).error_code) == 0
    assert int((await node.create(ADMIN, ADMIN)).error_code) == 0


async def test_owners_and_renewers_are_users() -> None:
    node = TokenNode()
    group = Principal("Group", "bob")
    assert int((await node.create(ALICE, renewers=[renewer(group)])).error_code) == INVALID_TYPE
    assert int((await node.create(ALICE, group)).error_code) == INVALID_TYPE
    assert not node.image.tokens


async def test_a_lifetime_that_is_too_long_becomes_the_longest() -> None:
    reply = await TokenNode().create(ALICE, max_lifetime=timedelta.max - timedelta(days=1))
    assert milliseconds(reply.max_timestamp) == NOW + 7 * DAY_MS
