"""DescribeDelegationToken, versions 1-3: the tokens that the client may see, with their HMACs. Reads the image.

Refuses: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED.
"""

from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int64
from penstock.handlers.support.token_requests import check_client, is_protected, secrets_of
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import Refusal
from penstock.security.principal import Principal
from penstock.security.tokens import DelegationToken


async def handle(context: Context, request: Request) -> DescribeDelegationTokenResponse:
    body: DescribeDelegationTokenRequest = request.body
    try:
        check_client(request)
        secrets = secrets_of(context)
    except Refusal as refusal:
        return DescribeDelegationTokenResponse(error_code=failed(refusal), tokens=(), throttle_time=NO_THROTTLE)
    owners = None
    if body.owners is not None:
        owners = {Principal(each.principal_type, each.principal_name) for each in body.owners}
    found = [
        _described(token, secrets.hmac(token.id))
        async for token in request.pace.each(list(context.quorum.image.tokens.values()))
        if _is_wanted(token, owners) and _is_visible(context, request, token)
    ]
    return DescribeDelegationTokenResponse(error_code=NO_ERROR, tokens=tuple(found), throttle_time=NO_THROTTLE)


def _is_wanted(token: DelegationToken, owners: set[Principal] | None) -> bool:
    # As in Kafka, the filter also finds the tokens that somebody may renew.
    return owners is None or token.owner in owners or any(each in owners for each in token.renewers)


def _is_visible(context: Context, request: Request, token: DelegationToken) -> bool:
    if token.belongs_to(request.principal):
        return True
    if is_protected(context, request, token.owner):
        return False
    return request.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id, is_asked=False) or request.may(
        Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), is_asked=False
    )


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=int64(token.issued_at_ms),
        expiry_timestamp=int64(token.expires_at_ms),
        max_timestamp=int64(token.max_at_ms),
        token_id=token.id,
        hmac=hmac,
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ),
    )
