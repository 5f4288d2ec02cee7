"""CreateAcls without an authorizer."""

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.static.primitive import i8

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

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
