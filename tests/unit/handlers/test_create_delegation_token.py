"""CreateDelegationToken, for clients that are not authenticated."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from penstock.handlers import create_delegation_token
from penstock.handlers.support.entities import NO_TIME
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ask_in_every_version

NOT_ALLOWED = 64


def request(**owner: Any) -> CreateDelegationTokenRequest:
    fields: dict[str, Any] = {"owner_principal_type": None, "owner_principal_name": None, **owner}
    return CreateDelegationTokenRequest(renewers=(), max_lifetime=i64Timedelta.parse(timedelta(days=1)), **fields)


async def test_a_token_is_refused_in_every_version() -> None:
    for reply in await ask_in_every_version(ApiKey.CREATE_DELEGATION_TOKEN, request()):
        assert (reply.error_code, reply.token_id, reply.hmac) == (NOT_ALLOWED, "", b"")
        assert reply.issue_timestamp in (None, NO_TIME)
        assert (reply.principal_type, reply.principal_name) == ("User", "ANONYMOUS")


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ({}, ("User", "ANONYMOUS")),
        ({"owner_principal_type": "User", "owner_principal_name": "alice"}, ("User", "alice")),
    ],
)
async def test_the_response_names_the_requested_owner(owner: dict[str, str], expected: tuple[str, str]) -> None:
    reply = await FakeNode().ask(
        create_delegation_token.handle, ApiKey.CREATE_DELEGATION_TOKEN, request(**owner), version=3
    )
    assert (reply.principal_type, reply.principal_name) == expected
    assert (reply.token_requester_principal_type, reply.token_requester_principal_name) == ("User", "ANONYMOUS")
