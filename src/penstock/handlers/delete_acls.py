"""DeleteAcls, versions 1-3. Penstock has no authorizer: SECURITY_DISABLED for every filter in the request."""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, failed
from penstock.model.errors import SecurityDisabled


async def handle(context: Context, request: Request) -> DeleteAclsResponse:
    body: DeleteAclsRequest = request.body
    refusal = SecurityDisabled()
    result = DeleteAclsFilterResult(error_code=failed(refusal), error_message=refusal.message, matching_acls=())
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(result,) * len(body.filters))
