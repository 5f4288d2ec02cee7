"""DeleteAcls without an authorizer."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.static.primitive import i8

from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest
from tests.unit.handlers.requests import ask_in_every_version

SECURITY_DISABLED = 54
FILTER = DeleteAclsFilter(
    resource_type_filter=i8(2),
    resource_name_filter="t",
    principal_filter=None,
    host_filter=None,
    operation=i8(1),
    permission_type=i8(1),
)


async def test_each_filter_is_refused_and_matches_nothing() -> None:
    for reply in await ask_in_every_version(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=(FILTER, FILTER))):
        assert [(each.error_code, each.matching_acls) for each in reply.filter_results] == [(SECURITY_DISABLED, ())] * 2


@pytest.mark.parametrize("field", ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"))
async def test_a_filter_with_a_number_for_unknown_is_malformed(field: str) -> None:
    unknown: Any = {field: i8(0)}
    with pytest.raises(MalformedRequest, match="a filter of ACLs has the number 0 for UNKNOWN"):
        await ask_in_every_version(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=(FILTER, replace(FILTER, **unknown))))
