"""CreateDelegationToken, versions 1-3. Clients are not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, NO_TIME, failed
from penstock.model.errors import DelegationTokenRequestNotAllowed

REQUESTER = ("User", "ANONYMOUS")


async def handle(context: Context, request: Request) -> CreateDelegationTokenResponse:
    body: CreateDelegationTokenRequest = request.body
    kind, name = REQUESTER
    return CreateDelegationTokenResponse(
        error_code=failed(DelegationTokenRequestNotAllowed()),
        principal_type=body.owner_principal_type or kind,
        principal_name=body.owner_principal_name or name,
        token_requester_principal_type=kind,
        token_requester_principal_name=name,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
        throttle_time=NO_THROTTLE,
    )
