"""What is asked of rules, tokens and passwords while there are none: refused in the shape that clients can read."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i8, i64Timedelta

from penstock.handlers.entities import NO_TIME
from penstock.handlers.table import COLD
from penstock.wire.api import APIS, ApiKey
from tests.unit.handlers.fakes import FakeNode

SECURITY_DISABLED, ILLEGAL_SASL_STATE, NOT_ALLOWED, NOT_FOUND, DUPLICATE = 54, 34, 64, 91, 92
ANY_TIME = i64Timedelta.parse(timedelta(days=1))
RULE = AclCreation(
    resource_type=i8(2), resource_name="t", principal="User:a", host="*", operation=i8(3), permission_type=i8(3)
)
FILTER = DeleteAclsFilter(
    resource_type_filter=i8(2),
    resource_name_filter="t",
    principal_filter=None,
    host_filter=None,
    operation=i8(1),
    permission_type=i8(1),
)


async def ask_in_every_version(api_key: int, body: Any) -> list[Any]:
    node, api = FakeNode(), APIS[api_key]
    versions = range(api.min_version, api.max_version + 1)
    return [await node.ask(COLD[api_key], api_key, body, version=version) for version in versions]


async def test_each_rule_is_refused_because_there_is_no_authorizer() -> None:
    for told in await ask_in_every_version(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=(RULE, RULE))):
        assert [result.error_code.value for result in told.results] == [SECURITY_DISABLED] * 2
    for told in await ask_in_every_version(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=(FILTER,))):
        [result] = told.filter_results
        assert (result.error_code.value, result.matching_acls) == (SECURITY_DISABLED, ())


async def test_rules_are_not_listed_because_there_is_no_authorizer() -> None:
    body = DescribeAclsRequest(
        resource_type_filter=i8(1),
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=i8(1),
        permission_type=i8(1),
    )
    for told in await ask_in_every_version(ApiKey.DESCRIBE_ACLS, body):
        assert told.error_code.value == SECURITY_DISABLED
        assert told.error_message == "No Authorizer is configured on the broker"


async def test_a_client_that_wants_to_authenticate_hears_that_nobody_asked_for_it() -> None:
    for told in await ask_in_every_version(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN")):
        assert (told.error_code.value, told.mechanisms) == (ILLEGAL_SASL_STATE, ())
    for told in await ask_in_every_version(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=b"secret")):
        assert told.error_code.value == ILLEGAL_SASL_STATE


TOKEN_REQUESTS = {
    ApiKey.CREATE_DELEGATION_TOKEN: CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=(), max_lifetime=ANY_TIME
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest(hmac=b"h", renew_period=ANY_TIME),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period=ANY_TIME),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRequest(owners=None),
}


@pytest.mark.parametrize("api_key", TOKEN_REQUESTS)
async def test_tokens_are_refused_to_who_has_not_authenticated(api_key: int) -> None:
    for told in await ask_in_every_version(api_key, TOKEN_REQUESTS[api_key]):
        assert told.error_code.value == NOT_ALLOWED


async def test_a_refused_token_has_no_times() -> None:
    for told in await ask_in_every_version(
        ApiKey.CREATE_DELEGATION_TOKEN, TOKEN_REQUESTS[ApiKey.CREATE_DELEGATION_TOKEN]
    ):
        assert told.issue_timestamp in (None, NO_TIME)
        assert (told.principal_type, told.principal_name) == ("User", "ANONYMOUS")


async def test_nobody_has_a_password() -> None:
    users = tuple(UserName(name=name) for name in ("a", "b", "b"))
    [told] = await ask_in_every_version(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=users)
    )
    assert [(result.user, result.error_code.value) for result in told.results] == [("a", NOT_FOUND), ("b", DUPLICATE)]
    [told] = await ask_in_every_version(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=None)
    )
    assert (told.error_code.value, told.results) == (0, ())
