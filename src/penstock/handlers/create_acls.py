"""CreateAcls, versions 1-3: creates ACLs, all valid ones in one commit.

An ACL that exists already is created without an error. Goes to controller/acls.py. Refuses, per ACL: INVALID_REQUEST;
all of them: SECURITY_DISABLED without an authorizer, POLICY_VIOLATION for more than 10,000.
"""

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

from penstock.controller.acls import decide_create_acls
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.acl import Acl
from penstock.model.errors import Refusal, SecurityDisabled
from penstock.wire.frame import MalformedRequest


async def handle(context: Context, request: Request) -> CreateAclsResponse:
    body: CreateAclsRequest = request.body
    acls = [_acl(creation) for creation in body.creations]
    results: tuple[Refusal | None, ...]
    try:
        if context.authorizer is None:
            raise SecurityDisabled
        results = await context.controller.run(lambda image: decide_create_acls(image, acls, context.entropy.uuid))
    except Refusal as refusal:
        results = (refusal,) * len(acls)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=tuple(map(_result, results)))


def _acl(creation: AclCreation) -> Acl:
    acl = Acl(
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission=creation.permission_type,
    )
    if 0 in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission):
        raise MalformedRequest("an ACL to create has the number 0 for UNKNOWN")
    return acl


def _result(refusal: Refusal | None) -> AclCreationResult:
    if refusal is None:
        # As in Kafka, not null.
        return AclCreationResult(error_code=NO_ERROR, error_message="")
    return AclCreationResult(error_code=failed(refusal), error_message=refusal.message)
