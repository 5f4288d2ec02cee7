"""Decisions on delegation tokens, their records and their snapshots."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.controller.tokens import (
    RENEWERS_SIZE_MAX,
    TIME_MS_MAX,
    TOKENS_MAX,
    TokenLimits,
    decide_create_token,
    decide_expire_token,
    decide_remove_expired,
    decide_renew_token,
)
from penstock.metadata.delta import apply
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import MetadataRecord, RemoveDelegationTokenRecord, decode, encode
from penstock.metadata.snapshot import records_of
from penstock.model.errors import (
    Corruption,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidRequest,
    PolicyViolation,
    Refusal,
)
from penstock.model.ids import LeaderEpoch, Offset
from penstock.security.principal import Principal, user
from penstock.security.tokens import DelegationToken, TokenSecrets

LIMITS = TokenLimits(max_lifetime_ms=1000, renew_ms_max=100)
SECRETS = TokenSecrets("key")
ALICE, BOB, CAROL = user("alice"), user("bob"), user("carol")
NOW = 5000


def after(image: Image, records: Sequence[MetadataRecord]) -> Image:
    written = [decode(encode(record)) for record in records]
    return apply(image, written, offset=Offset(image.offset + 1), epoch=LeaderEpoch(1))[1]


def create(image: Image = EMPTY, token_id: str = "t", **changes: Any) -> tuple[DelegationToken, Image]:
    values: dict[str, Any] = {
        "owner": ALICE, "requester": ALICE, "renewers": (BOB,), "lifetime_ms": -1, "now_ms": NOW, "limits": LIMITS,
    }  # fmt: skip
    decision = decide_create_token(image, token_id=token_id, **values | changes)
    return decision.reply, after(image, decision.records)


def renew(image: Image, client: Principal = ALICE, *, period_ms: int = -1, now_ms: int = NOW) -> tuple[int, Image]:
    hmac = SECRETS.hmac("t")
    decision = decide_renew_token(image, SECRETS, hmac, client, period_ms=period_ms, now_ms=now_ms, limits=LIMITS)
    return decision.reply, after(image, decision.records)


def expire(image: Image, client: Principal = ALICE, *, period_ms: int = -1, now_ms: int = NOW) -> tuple[int, Image]:
    decision = decide_expire_token(image, SECRETS, SECRETS.hmac("t"), client, period_ms=period_ms, now_ms=now_ms)
    return decision.reply, after(image, decision.records)


@pytest.mark.parametrize(
    ("lifetime_ms", "expires_at_ms", "max_at_ms"),
    [(-1, 5100, 6000), (0, 5100, 6000), (50, 5050, 5050), (500, 5100, 5500), (2**62, 5100, 6000)],
)
def test_a_token_lives_as_long_as_requested_but_no_longer_than_the_limits(
    lifetime_ms: int, expires_at_ms: int, max_at_ms: int
) -> None:
    token, image = create(lifetime_ms=lifetime_ms)
    assert token == DelegationToken("t", ALICE, ALICE, (BOB,), NOW, max_at_ms, expires_at_ms)
    assert image.tokens == {"t": token}


def test_times_have_dates() -> None:
    token, _ = create(limits=TokenLimits(2**63 - 1, 2**63 - 1))
    assert (token.max_at_ms, token.expires_at_ms) == (TIME_MS_MAX, TIME_MS_MAX)


@pytest.mark.parametrize("client", [ALICE, BOB])
@pytest.mark.parametrize(("period_ms", "expires"), [(-1, 5150), (0, 5150), (10, 5060), (10_000, 5150)])
def test_owners_and_renewers_renew(client: Principal, period_ms: int, expires: int) -> None:
    _, image = create()
    reply, image = renew(image, client, period_ms=period_ms, now_ms=NOW + 50)
    assert reply == image.tokens["t"].expires_at_ms == expires


def test_a_token_is_not_renewed_beyond_its_longest_life() -> None:
    _, image = create(lifetime_ms=120)
    assert renew(image, now_ms=NOW + 90)[0] == NOW + 120


@pytest.mark.parametrize("client", [ALICE, BOB])
def test_owners_and_renewers_let_a_token_expire(client: Principal) -> None:
    _, image = create()
    reply, sooner = expire(image, client, period_ms=7)
    assert reply == sooner.tokens["t"].expires_at_ms == NOW + 7
    assert expire(image, client, period_ms=10_000)[0] == NOW + 1000
    reply, removed = expire(image, client)
    assert (reply, removed.tokens) == (NOW, {})


def test_an_expired_token_can_only_be_removed() -> None:
    _, image = create()
    late = NOW + 101
    assert renew(image, now_ms=late - 1)[0] == late + 99
    with pytest.raises(DelegationTokenExpired):
        renew(image, now_ms=late)
    with pytest.raises(DelegationTokenExpired):
        expire(image, period_ms=5, now_ms=late)
    assert expire(image, now_ms=late)[1].tokens == {}


def test_others_change_nothing() -> None:
    _, image = create(owner=ALICE, requester=CAROL)
    for change in (renew, expire):
        with pytest.raises(DelegationTokenOwnerMismatch):
            change(image, CAROL)


@pytest.mark.parametrize("hmac", [b"", b"x", TokenSecrets("other").hmac("t"), SECRETS.hmac("u")])
def test_a_token_is_found_by_its_hmac_only(hmac: bytes) -> None:
    _, image = create()
    with pytest.raises(DelegationTokenNotFound):
        decide_renew_token(image, SECRETS, hmac, ALICE, period_ms=1, now_ms=NOW, limits=LIMITS)
    with pytest.raises(DelegationTokenNotFound):
        decide_expire_token(image, SECRETS, hmac, ALICE, period_ms=1, now_ms=NOW)


def test_a_removed_token_is_not_found() -> None:
    _, image = create()
    _, removed = expire(image)
    with pytest.raises(DelegationTokenNotFound):
        renew(removed)
    assert renew(image)[0] == NOW + 100


def test_expired_tokens_are_removed() -> None:
    _, image = create(token_id="short", lifetime_ms=10)
    _, image = create(image, token_id="long")
    for now_ms, left in ((NOW + 10, {"short", "long"}), (NOW + 11, {"long"}), (NOW + 101, set())):
        decision = decide_remove_expired(image, now_ms)
        assert after(image, decision.records).tokens.keys() == left
        assert {token.id for token in decision.reply} == image.tokens.keys() - left


def test_a_client_cannot_fill_the_metadata_with_tokens() -> None:
    token, _ = create()
    image = Image(tokens={str(number): token._replace(id=str(number)) for number in range(TOKENS_MAX)})
    with pytest.raises(PolicyViolation):
        create(image)
    assert create(image, requester=BOB)[0].owner == ALICE
    with pytest.raises(InvalidRequest):
        create(renewers=(user("x" * RENEWERS_SIZE_MAX),))


def test_a_snapshot_contains_all_tokens() -> None:
    _, image = create()
    _, image = create(image, token_id="u", owner=user("a:b"), renewers=())
    assert after(EMPTY, [record for record in records_of(image) if "Token" in type(record).__name__]) == Image(
        tokens=image.tokens, offset=Offset(0), epoch=LeaderEpoch(1)
    )


def test_the_removal_of_an_unknown_token_is_corruption() -> None:
    with pytest.raises(Corruption):
        after(EMPTY, [RemoveDelegationTokenRecord(token_id="t")])


def test_refusals_have_kafkas_codes() -> None:
    kinds: list[type[Refusal]] = [DelegationTokenNotFound, DelegationTokenOwnerMismatch, DelegationTokenExpired]
    assert [kind.code for kind in kinds] == [62, 63, 66]
