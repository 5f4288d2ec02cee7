"""RenewDelegationToken, versions 1-2: extends a token, which the client must own or be allowed to renew.

Goes to controller/tokens.py. Refuses: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED,
DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
"""

from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

from penstock.controller.tokens import decide_renew_token
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import EPOCH, NO_ERROR, NO_THROTTLE, NO_TIME, failed, in_milliseconds, time
from penstock.handlers.support.token_requests import check_client, limits_of, secrets_of
from penstock.model.errors import DelegationTokenRequestNotAllowed, Refusal


async def handle(context: Context, request: Request) -> RenewDelegationTokenResponse:
    body: RenewDelegationTokenRequest = request.body
    try:
        check_client(request)
        secrets, limits = secrets_of(context), limits_of(context)
        expires_at_ms = await context.controller.run(
            lambda image: decide_renew_token(
                image,
                secrets,
                body.hmac,
                request.principal,
                period_ms=in_milliseconds(body.renew_period),
                now_ms=context.clock.wall_ms(),
                limits=limits,
            )
        )
    except Refusal as refusal:
        # As in Kafka, whose controller answers with another time than its brokers.
        missing = NO_TIME if isinstance(refusal, DelegationTokenRequestNotAllowed) else EPOCH
        return RenewDelegationTokenResponse(
            error_code=failed(refusal), expiry_timestamp=missing, throttle_time=NO_THROTTLE
        )
    return RenewDelegationTokenResponse(
        error_code=NO_ERROR, expiry_timestamp=time(expires_at_ms), throttle_time=NO_THROTTLE
    )
