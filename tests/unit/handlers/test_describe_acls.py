"""DescribeAcls through its handler."""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.static.primitive import i8

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

SECURITY_DISABLED = 54


async def test_acls_are_not_listed_without_an_authorizer() -> None:
    body = DescribeAclsRequest(
        resource_type_filter=i8(1),
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=i8(1),
        permission_type=i8(1),
    )
    for response in await ask_in_every_version(ApiKey.DESCRIBE_ACLS, body):
        assert response.error_code.value == SECURITY_DISABLED
        assert response.error_message == "No Authorizer is configured on the broker"
