"""DeleteAcls without an authorizer."""

from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.static.primitive import i8

from penstock.wire.api import ApiKey
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
