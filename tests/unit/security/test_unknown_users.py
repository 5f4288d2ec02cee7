"""Credentials of users that do not exist: they look like those of users that do."""

import hmac
from typing import Any

import pytest

from penstock.security.mechanism import AuthenticationFailed, Challenge
from penstock.security.plain import PlainServer
from penstock.security.scram import HASHES, ScramClient, ScramCredential, ScramServer
from penstock.security.unknown_users import SHAPES_MAX, Shape, UnknownUsers, shapes_of

SECRET = b"s" * 32
NAMES = [f"user-{number}" for number in range(200)]


def credential(salt_size: int, iterations: int) -> ScramCredential:
    return ScramCredential(b"x" * salt_size, b"", b"", iterations)


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_name_always_has_the_same_credential(mechanism: str) -> None:
    shapes = shapes_of([credential(26, 8192)])
    one, other = (UnknownUsers(mechanism, SECRET, shapes) for _ in range(2))
    found = [one.credential(name) for name in NAMES]
    assert found == [other.credential(name) for name in NAMES]
    assert len({each.salt for each in found}) == len(NAMES)
    assert found[0] != UnknownUsers(mechanism, b"another secret", shapes).credential(NAMES[0])


def test_the_mechanisms_have_different_salts() -> None:
    salts = {UnknownUsers(mechanism, SECRET, (Shape(24, 4096),)).credential("a").salt for mechanism in HASHES}
    assert len(salts) == len(HASHES)


def test_a_credential_has_the_shape_of_an_existing_one() -> None:
    existing = [credential(24, 4096), credential(26, 8192), credential(64, 16384), credential(24, 4096)]
    unknown = UnknownUsers("SCRAM-SHA-256", SECRET, shapes_of(existing))
    found = {Shape(len(each.salt), each.iterations) for each in map(unknown.credential, NAMES)}
    assert found == {Shape(24, 4096), Shape(26, 8192), Shape(64, 16384)}


def test_without_users_the_shape_is_that_of_new_ones() -> None:
    assert shapes_of([]) == (Shape(24, 4096),)


def test_a_new_shape_changes_only_the_names_that_get_it() -> None:
    before = UnknownUsers("SCRAM-SHA-256", SECRET, (Shape(24, 4096), Shape(26, 4096)))
    after = UnknownUsers("SCRAM-SHA-256", SECRET, (Shape(24, 4096), Shape(26, 4096), Shape(64, 8192)))
    for name in NAMES:
        was, now = before.credential(name), after.credential(name)
        assert was == now or now.iterations == 8192


def test_the_number_of_shapes_is_limited() -> None:
    assert len(shapes_of(credential(size, 4096) for size in range(1, 100))) == SHAPES_MAX


def _computations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every HMAC and every comparison adds its sizes."""
    seen: list[str] = []
    digest, compare = hmac.digest, hmac.compare_digest

    def seen_digest(key: bytes, data: bytes, name: Any) -> bytes:
        seen.append(f"digest {len(key)} {len(data)} {name}")
        return digest(key, data, name)

    def seen_compare(left: Any, right: Any) -> bool:
        seen.append(f"compare {len(left)} {len(right)}")
        return compare(left, right)

    monkeypatch.setattr(hmac, "digest", seen_digest)
    monkeypatch.setattr(hmac, "compare_digest", seen_compare)
    return seen


@pytest.mark.parametrize("mechanism", HASHES)
def test_an_unknown_user_costs_the_same_as_a_wrong_password(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"alice": UnknownUsers(mechanism, b"any", (Shape(24, 4096),)).credential("x")}
    unknown = UnknownUsers(mechanism, SECRET, shapes_of(users.values()))

    def log_in(name: str) -> tuple[list[str], int, str]:
        server = ScramServer(mechanism, users.get, nonce="server", invent=unknown.credential)
        client = ScramClient(mechanism, name, "wrong", nonce="client")
        with monkeypatch.context() as patch:
            seen = _computations(patch)
            challenge = server.step(client.first())
        assert isinstance(challenge, Challenge)
        final = client.step(challenge.message)
        assert final is not None
        with monkeypatch.context() as patch:
            more = _computations(patch)
            with pytest.raises(AuthenticationFailed) as failed:
                server.step(final)
        return seen + more, len(challenge.message), str(failed.value)

    assert log_in("alice") == log_in("nobod")


def test_plain_computes_the_same_for_an_unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    server = PlainServer({"alice": "a much longer password than the one that is tried"}, unknown=SECRET)

    def log_in(name: str) -> tuple[list[str], str]:
        with monkeypatch.context() as patch:
            seen = _computations(patch)
            with pytest.raises(AuthenticationFailed) as failed:
                server.step(f"\0{name}\0wrong".encode())
        return seen, str(failed.value)

    assert log_in("alice") == log_in("nobod")
