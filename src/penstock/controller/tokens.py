"""Decisions on delegation tokens. The table of all cases is in docs/internals/authorization.md.

The caller has checked who sends the request. Times are the controller's. Commits nothing.
Refuses, with Kafka's codes: DelegationTokenNotFound, DelegationTokenExpired, DelegationTokenOwnerMismatch; and
PolicyViolation if a client creates too many tokens, InvalidRequest for too many renewers.
"""

from dataclasses import dataclass
from typing import Final

from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import Image
from penstock.metadata.records import RemoveDelegationTokenRecord
from penstock.metadata.token_records import token_record
from penstock.model.errors import (
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidRequest,
    PolicyViolation,
)
from penstock.security.principal import Principal
from penstock.security.tokens import DelegationToken, TokenSecrets

TIME_MS_MAX: Final = 253_402_300_799_000
"""The end of the year 9999: later times have no date."""
TOKENS_MAX: Final = 1000
"""How many tokens one principal may have created: any authenticated client can create tokens."""
RENEWERS_SIZE_MAX: Final = 16 * 1024
REMOVED_MAX: Final = 10_000
"""How many expired tokens one commit removes."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """How long tokens are valid: at all, and without a renewal."""

    max_lifetime_ms: int
    renew_ms_max: int


def decide_create_token(
    image: Image,
    *,
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: tuple[Principal, ...],
    lifetime_ms: int,
    now_ms: int,
    limits: TokenLimits,
) -> ControllerDecision[DelegationToken]:
    """Create a token; without a positive lifetime it gets the longest one."""
    if sum(each.requester == requester for each in image.tokens.values()) >= TOKENS_MAX:
        raise PolicyViolation(f"{requester} has created {TOKENS_MAX} delegation tokens: expire some of them first")
    if sum(len(str(renewer)) for renewer in renewers) > RENEWERS_SIZE_MAX:
        raise InvalidRequest(f"the names of the renewers are longer than {RENEWERS_SIZE_MAX} characters")
    longest = limits.max_lifetime_ms if lifetime_ms <= 0 else min(lifetime_ms, limits.max_lifetime_ms)
    max_at_ms = min(now_ms + longest, TIME_MS_MAX)
    token = DelegationToken(
        id=token_id,
        owner=Principal(*owner),
        requester=Principal(*requester),
        renewers=renewers,
        issued_at_ms=now_ms,
        max_at_ms=max_at_ms,
        expires_at_ms=min(max_at_ms, now_ms + limits.renew_ms_max),
    )
    return ControllerDecision([token_record(token)], token)


def decide_renew_token(
    image: Image,
    secrets: TokenSecrets,
    hmac: bytes,
    client: Principal,
    *,
    period_ms: int,
    now_ms: int,
    limits: TokenLimits,
) -> ControllerDecision[int]:
    """Extend a token; without a positive period by the longest one. The reply is when it expires."""
    token = _find(image, secrets, hmac)
    if not token.is_valid(now_ms):
        raise DelegationTokenExpired
    _check_client(token, client)
    period_ms = limits.renew_ms_max if period_ms <= 0 else min(period_ms, limits.renew_ms_max)
    return _expiring(token, now_ms + period_ms)


def decide_expire_token(
    image: Image, secrets: TokenSecrets, hmac: bytes, client: Principal, *, period_ms: int, now_ms: int
) -> ControllerDecision[int]:
    """Let a token expire after a period, or remove it if the period is negative. The reply is when it expires."""
    token = _find(image, secrets, hmac)
    _check_client(token, client)
    if period_ms < 0:
        return ControllerDecision([RemoveDelegationTokenRecord(token_id=token.id)], now_ms)
    if not token.is_valid(now_ms):
        raise DelegationTokenExpired
    return _expiring(token, now_ms + period_ms)


def decide_remove_expired(image: Image, now_ms: int) -> ControllerDecision[tuple[DelegationToken, ...]]:
    """Remove tokens that have expired. The reply are the tokens."""
    expired = [token for token in image.tokens.values() if not token.is_valid(now_ms)][:REMOVED_MAX]
    return ControllerDecision([RemoveDelegationTokenRecord(token_id=token.id) for token in expired], tuple(expired))


def _find(image: Image, secrets: TokenSecrets, hmac: bytes) -> DelegationToken:
    token = secrets.find(image.tokens, hmac)
    if token is None:
        raise DelegationTokenNotFound
    return token


def _check_client(token: DelegationToken, client: Principal) -> None:
    if not token.belongs_to(client):
        raise DelegationTokenOwnerMismatch


def _expiring(token: DelegationToken, at_ms: int) -> ControllerDecision[int]:
    changed = token._replace(expires_at_ms=min(token.max_at_ms, at_ms))
    return ControllerDecision([token_record(changed)], changed.expires_at_ms)
