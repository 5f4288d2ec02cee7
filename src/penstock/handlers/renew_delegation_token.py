"""RenewDelegationToken, versions 1-2. Clients are not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, NO_TIME, failed
from penstock.model.errors import DelegationTokenRequestNotAllowed


async def handle(context: Context, request: Request) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=failed(DelegationTokenRequestNotAllowed()), expiry_timestamp=NO_TIME, throttle_time=NO_THROTTLE
    )
