"""DescribeAcls through its handler."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.static.primitive import i8

from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest
from tests.unit.handlers.requests import ask_in_every_version

SECURITY_DISABLED = 54


ALL = DescribeAclsRequest(
    resource_type_filter=i8(1),
    resource_name_filter=None,
    principal_filter=None,
    host_filter=None,
    operation=i8(1),
    permission_type=i8(1),
)


async def test_acls_are_not_listed_without_an_authorizer() -> None:
    for response in await ask_in_every_version(ApiKey.DESCRIBE_ACLS, ALL):
        assert response.error_code.value == SECURITY_DISABLED
        assert response.error_message == "No Authorizer is configured on the broker"


@pytest.mark.parametrize("field", ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"))
async def test_a_filter_with_a_number_for_unknown_is_malformed(field: str) -> None:
    unknown: Any = {field: i8(0)}
    with pytest.raises(MalformedRequest, match="a filter of ACLs has the number 0 for UNKNOWN"):
        await ask_in_every_version(ApiKey.DESCRIBE_ACLS, replace(ALL, **unknown))
