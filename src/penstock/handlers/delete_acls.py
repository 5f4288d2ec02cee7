"""DeleteAcls, versions 1-3: deletes the ACLs that match filters, all of them in one commit.

Goes to controller/acls.py. Refuses, per filter: INVALID_REQUEST; all of them: SECURITY_DISABLED without an authorizer,
POLICY_VIOLATION if more than 10,000 ACLs match.
"""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse

from penstock.controller.acls import DeletedAcls, decide_delete_acls
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8
from penstock.model.acl import Acl
from penstock.model.errors import Refusal, SecurityDisabled
from penstock.security.acl_filter import AclFilter
from penstock.wire.frame import MalformedRequest


async def handle(context: Context, request: Request) -> DeleteAclsResponse:
    body: DeleteAclsRequest = request.body
    filters = [
        AclFilter(
            resource_type=each.resource_type_filter,
            resource_name=each.resource_name_filter,
            pattern_type=each.pattern_type_filter,
            principal=each.principal_filter,
            host=each.host_filter,
            operation=each.operation,
            permission=each.permission_type,
        )
        for each in body.filters
    ]
    if any(0 in (each.resource_type, each.pattern_type, each.operation, each.permission) for each in filters):
        raise MalformedRequest("a filter of ACLs has the number 0 for UNKNOWN")
    results: tuple[DeletedAcls, ...]
    try:
        if context.authorizer is None:
            raise SecurityDisabled
        results = await context.controller.run(lambda image: decide_delete_acls(image, filters))
    except Refusal as refusal:
        results = (DeletedAcls(refusal=refusal),) * len(filters)
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=tuple(map(_result, results)))


def _result(result: DeletedAcls) -> DeleteAclsFilterResult:
    refusal = result.refusal
    return DeleteAclsFilterResult(
        error_code=NO_ERROR if refusal is None else failed(refusal),
        error_message=None if refusal is None else refusal.message,
        matching_acls=tuple(map(_matching, result.acls)),
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=NO_ERROR,
        error_message=None,
        resource_type=int8(acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=int8(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int8(acl.operation),
        permission_type=int8(acl.permission),
    )
