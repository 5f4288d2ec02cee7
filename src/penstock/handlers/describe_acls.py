"""DescribeAcls, versions 1-3: the ACLs that match a filter, grouped by resource. Reads the metadata image.

Refuses: SECURITY_DISABLED without an authorizer, INVALID_REQUEST for numbers that do not exist.
"""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource, DescribeAclsResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8
from penstock.model.acl import Acl
from penstock.model.errors import Refusal, SecurityDisabled
from penstock.security.acl_filter import AclFilter
from penstock.wire.frame import MalformedRequest


async def handle(context: Context, request: Request) -> DescribeAclsResponse:
    body: DescribeAclsRequest = request.body
    wanted = AclFilter(
        resource_type=body.resource_type_filter,
        resource_name=body.resource_name_filter,
        pattern_type=body.pattern_type_filter,
        principal=body.principal_filter,
        host=body.host_filter,
        operation=body.operation,
        permission=body.permission_type,
    )
    if 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission):
        raise MalformedRequest("a filter of ACLs has the number 0 for UNKNOWN")
    try:
        if context.authorizer is None:
            raise SecurityDisabled("No Authorizer is configured on the broker")
        wanted.check()
    except Refusal as refusal:
        return DescribeAclsResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message, resources=()
        )
    found: dict[tuple[int, str, int], dict[Acl, None]] = {}
    async for acl in request.pace.each(list(context.quorum.image.acls.values())):
        if wanted.matches(acl):
            found.setdefault(acl[:3], {})[acl] = None
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        error_message="",
        resources=tuple(
            DescribeAclsResource(
                resource_type=int8(kind),
                resource_name=name,
                pattern_type=int8(pattern),
                acls=tuple(map(_description, acls)),
            )
            for (kind, name, pattern), acls in found.items()
        ),
    )


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=int8(acl.operation),
        permission_type=int8(acl.permission),
    )
