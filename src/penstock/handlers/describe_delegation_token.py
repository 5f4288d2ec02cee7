"""DescribeDelegationToken, versions 1-3. Clients are not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, failed
from penstock.model.errors import DelegationTokenRequestNotAllowed


async def handle(context: Context, request: Request) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=failed(DelegationTokenRequestNotAllowed()), tokens=(), throttle_time=NO_THROTTLE
    )
