"""CreateAcls, versions 1-3. Penstock has no authorizer: SECURITY_DISABLED for every ACL in the request."""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, failed
from penstock.model.errors import SecurityDisabled


async def handle(context: Context, request: Request) -> CreateAclsResponse:
    body: CreateAclsRequest = request.body
    refusal = SecurityDisabled()
    result = AclCreationResult(error_code=failed(refusal), error_message=refusal.message)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(result,) * len(body.creations))
