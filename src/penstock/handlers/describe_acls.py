"""DescribeAcls, versions 1-3. Penstock has no authorizer: SECURITY_DISABLED."""

from kio.schema.describe_acls.v3.response import DescribeAclsResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, failed
from penstock.model.errors import SecurityDisabled


async def handle(context: Context, request: Request) -> DescribeAclsResponse:
    refusal = SecurityDisabled("No Authorizer is configured on the broker")
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message, resources=()
    )
