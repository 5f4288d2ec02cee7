"""Decisions on SCRAM credentials."""

import pytest

from penstock.config.broker_security import UNKNOWN_USERS_SECRET
from penstock.controller.credentials import ALL_BROKERS, Deletion, Upsertion, decide_alter_credentials
from penstock.metadata.delta import apply
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.snapshot import records_of
from penstock.model.ids import LeaderEpoch, Offset
from penstock.security.scram import credential_from_salted, salted_password

SALTED = salted_password("SCRAM-SHA-256", "secret", b"salt", 4096)


def upsert(name: str = "alice", mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt") -> Upsertion:
    return Upsertion(name, mechanism, iterations, salt, SALTED)


def decide(image: Image, *changes: Deletion | Upsertion, new_secret: str = "first") -> tuple[dict[str, int], Image]:
    """Return the error code of each user, and the image after the decision."""
    decision = decide_alter_credentials(
        image,
        [each for each in changes if isinstance(each, Deletion)],
        [each for each in changes if isinstance(each, Upsertion)],
        new_secret=new_secret,
    )
    codes = {result.name: 0 if result.refusal is None else result.refusal.code for result in decision.reply}
    _, after = apply(image, decision.records, offset=Offset(image.offset + 1), epoch=LeaderEpoch(1))
    return codes, after


def test_a_credential_is_created_changed_and_removed() -> None:
    codes, image = decide(EMPTY, upsert())
    assert codes == {"alice": 0}
    assert image.credentials == {("alice", 1): credential_from_salted("SCRAM-SHA-256", b"salt", 4096, SALTED)}
    _, image = decide(image, upsert(iterations=8192), upsert(mechanism=2))
    assert {key: value.iterations for key, value in image.credentials.items()} == {
        ("alice", 1): 8192,
        ("alice", 2): 4096,
    }
    codes, image = decide(image, Deletion("alice", 1))
    assert (codes, list(image.credentials)) == ({"alice": 0}, [("alice", 2)])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsert(name=""), 93),
        (upsert(iterations=4095), 93),
        (upsert(iterations=16385), 93),
        (upsert(salt=b""), 93),
        (upsert(mechanism=0), 33),
        (upsert(mechanism=3), 33),
        (Deletion("nobody", 1), 91),
        (Deletion("", 1), 93),
        (Deletion("alice", 9), 33),
    ],
)
def test_a_wrong_change_is_refused_and_the_others_are_made(change: Deletion | Upsertion, code: int) -> None:
    codes, image = decide(EMPTY, change, upsert(name="bob"))
    assert codes == {change.name: code, "bob": 0}
    assert list(image.credentials) == [("bob", 1)]


def test_a_user_with_a_duplicate_change_is_not_changed() -> None:
    codes, image = decide(EMPTY, upsert(), upsert(), upsert(mechanism=2))
    assert (codes, image.credentials) == ({"alice": 92}, {})
    _, image = decide(EMPTY, upsert())
    codes, after = decide(image, Deletion("alice", 1), upsert())
    assert (codes, after.credentials) == ({"alice": 92}, image.credentials)


def test_credentials_survive_a_snapshot() -> None:
    _, image = decide(EMPTY, upsert(), upsert(name="bob", mechanism=2))
    _, again = apply(EMPTY, records_of(image), offset=Offset(9), epoch=LeaderEpoch(1))
    assert again.credentials == image.credentials


def test_the_first_change_creates_the_secret_for_unknown_users() -> None:
    _, image = decide(EMPTY, upsert(name=""))
    assert not image.config(ALL_BROKERS)
    _, image = decide(image, upsert())
    assert image.config(ALL_BROKERS) == {UNKNOWN_USERS_SECRET: "first"}
    _, image = decide(image, upsert(name="bob"), new_secret="second")
    _, image = decide(image, Deletion("alice", 1), Deletion("bob", 1), new_secret="third")
    assert image.config(ALL_BROKERS) == {UNKNOWN_USERS_SECRET: "first"}


def test_no_secret_is_shown() -> None:
    decision = decide_alter_credentials(EMPTY, [], [upsert()], new_secret="canary")
    assert repr(SALTED) not in repr(upsert())
    for secret in (SALTED.hex(), "stored_key", "canary"):
        assert secret not in repr(decision)
