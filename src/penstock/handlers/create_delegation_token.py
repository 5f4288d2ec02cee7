"""CreateDelegationToken, versions 1-3: creates a token of the client, or since version 3 of another user.

Goes to controller/tokens.py. Refuses: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED,
INVALID_PRINCIPAL_TYPE, DELEGATION_TOKEN_AUTH_DISABLED, POLICY_VIOLATION, INVALID_REQUEST.
"""

import base64

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse

from penstock.controller.tokens import decide_create_token
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import EPOCH, NO_ERROR, NO_THROTTLE, NO_TIME, failed, in_milliseconds, time
from penstock.handlers.support.token_requests import check_client, is_protected, limits_of, secrets_of
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    InvalidPrincipalType,
    Refusal,
)
from penstock.security.principal import USER, Principal
from penstock.security.tokens import DelegationToken


async def handle(context: Context, request: Request) -> CreateDelegationTokenResponse:
    body: CreateDelegationTokenRequest = request.body
    requester = request.principal
    owner = requester
    if body.owner_principal_name:
        owner = Principal(body.owner_principal_type or "", body.owner_principal_name)
    renewers = tuple(Principal(each.principal_type, each.principal_name) for each in body.renewers)
    try:
        _check(context, request, owner, renewers)
        secrets, limits = secrets_of(context), limits_of(context)
        # Kafka's ids are UUIDs in this form, too.
        token_id = base64.urlsafe_b64encode(context.entropy.uuid().bytes).decode().rstrip("=")
        token = await context.controller.run(
            lambda image: decide_create_token(
                image,
                token_id=token_id,
                owner=owner,
                requester=requester,
                renewers=renewers,
                lifetime_ms=in_milliseconds(body.max_lifetime),
                now_ms=context.clock.wall_ms(),
                limits=limits,
            )
        )
    except Refusal as refusal:
        return _response(owner, requester, refusal=refusal)
    return _response(owner, requester, token=token, hmac=secrets.hmac(token.id))


def _check(context: Context, request: Request, owner: Principal, renewers: tuple[Principal, ...]) -> None:
    check_client(request)
    if owner != request.principal and (
        not request.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)) or is_protected(context, request, owner)
    ):
        raise DelegationTokenAuthorizationFailed
    # A login with the token makes its owner a user, whatever its type is here.
    if any(each.type != USER for each in (owner, *renewers)):
        raise InvalidPrincipalType


def _response(
    owner: Principal,
    requester: Principal,
    *,
    token: DelegationToken | None = None,
    hmac: bytes = b"",
    refusal: Refusal | None = None,
) -> CreateDelegationTokenResponse:
    # As in Kafka, whose controller answers with other times than its brokers.
    missing = EPOCH if isinstance(refusal, DelegationTokenAuthDisabled) else NO_TIME
    return CreateDelegationTokenResponse(
        error_code=NO_ERROR if refusal is None else failed(refusal),
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=missing if token is None else time(token.issued_at_ms),
        expiry_timestamp=missing if token is None else time(token.expires_at_ms),
        max_timestamp=missing if token is None else time(token.max_at_ms),
        token_id="" if token is None else token.id,
        hmac=hmac,
        throttle_time=NO_THROTTLE,
    )
