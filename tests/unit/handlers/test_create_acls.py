"""CreateAcls through its handler, with and without an authorizer."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.static.primitive import i8

from penstock.handlers import create_acls
from penstock.security.rights import Authorizer
from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ask_in_every_version

INVALID_REQUEST = 42
SECURITY_DISABLED = 54
RULE = AclCreation(
    resource_type=i8(2), resource_name="t", principal="User:a", host="*", operation=i8(3), permission_type=i8(3)
)


async def test_each_acl_is_refused() -> None:
    for reply in await ask_in_every_version(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=(RULE, RULE))):
        assert [(each.error_code, each.error_message) for each in reply.results] == [
            (SECURITY_DISABLED, "No Authorizer is configured.")
        ] * 2


async def test_no_acls_get_no_results() -> None:
    for reply in await ask_in_every_version(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=())):
        assert reply.results == ()


@pytest.mark.parametrize("field", ("resource_type", "resource_pattern_type", "operation", "permission_type"))
async def test_an_acl_with_a_number_for_unknown_is_malformed(field: str) -> None:
    unknown: Any = {field: i8(0)}
    with pytest.raises(MalformedRequest, match="an ACL to create has the number 0 for UNKNOWN"):
        await ask_in_every_version(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=(replace(RULE, **unknown),)))


async def test_each_acl_is_created_or_refused_by_itself() -> None:
    node = FakeNode()
    node.context.authorizer = Authorizer()
    body = CreateAclsRequest(creations=(RULE, replace(RULE, principal="alice"), replace(RULE, host="10.0.0.1")))
    reply = await node.ask(create_acls.handle, ApiKey.CREATE_ACLS, body)
    assert [int(each.error_code) for each in reply.results] == [0, INVALID_REQUEST, 0]
    assert sorted(acl.host for acl in node.image.acls.values()) == ["*", "10.0.0.1"]
