"""What the handlers of delegation tokens have in common.

Refuses: DelegationTokenRequestNotAllowed, DelegationTokenAuthDisabled.
"""

from penstock.controller.tokens import TokenLimits
from penstock.handlers.support.context import Context, Request
from penstock.model.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed
from penstock.security.principal import ANONYMOUS, Principal
from penstock.security.tokens import TokenSecrets


def check_client(request: Request) -> None:
    """Reject clients that may not send requests about tokens.

    A token must not create another one, or it would never expire. A forwarded request has the client's principal.
    """
    if request.principal == ANONYMOUS or request.principal.is_token:
        raise DelegationTokenRequestNotAllowed


def secrets_of(context: Context) -> TokenSecrets:
    if context.token_secrets is None:
        raise DelegationTokenAuthDisabled
    return context.token_secrets


def limits_of(context: Context) -> TokenLimits:
    return TokenLimits(
        max_lifetime_ms=context.settings.integer("delegation.token.max.lifetime.ms"),
        renew_ms_max=context.settings.integer("delegation.token.expiry.time.ms"),
    )


def is_protected(context: Context, request: Request, owner: Principal) -> bool:
    """Return whether the owner is a super user and the client is not: with its token the client would become one."""
    if context.authorizer is None or request.rights is None or request.rights.is_super_user:
        return False
    return owner in context.authorizer.super_users
