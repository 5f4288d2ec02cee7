"""penstock token on a secured broker, and logins with tokens."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.support.command import Outcome, penstock

pytest.importorskip("cryptography")

PASSWORD = "wonderland"
Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(secure=True) as made:
        file = str(made.data / "security" / "client.properties")
        for name in ("alice", "bob"):
            where = ("--bootstrap", made.bootstrap, "--command-config", file)
            assert penstock("user", "add", name, "--password-stdin", *where, given=f"{PASSWORD}\n").code == 0
        yield made


@pytest.fixture
def run(broker: Broker) -> Run:
    """Return a function that runs a command as the administrator, as another user, or with a file of properties."""
    admin = broker.data / "security" / "client.properties"

    def run(*words: str, user: str = "", file: Path = admin) -> Outcome:
        login = ("-X", f"sasl.username={user}", "-X", f"sasl.password={PASSWORD}") if user else ()
        return penstock(*words, "--bootstrap", broker.bootstrap, "--command-config", str(file), *login)

    return run


def test_a_token_is_created_listed_renewed_and_removed(run: Run) -> None:
    (created,) = run("token", "create", "--renewer", "bob", "--lifetime", "2d", "--format", "json", user="alice").json()
    assert (created["owner"], created["renewers"]) == ("User:alice", "User:bob")
    assert created["hmac"]
    for user in ("alice", "bob"):
        listed = run("token", "list", "--format", "json", user=user)
        assert created["id"] in [row["id"] for row in listed.json()]
        assert created["hmac"] not in listed.out
    renewed = run("token", "renew", created["id"], "--period", "1h", user="bob")
    assert renewed.out.startswith(f"token {created['id']} expires at 2"), renewed.err
    sooner = run("token", "expire", created["id"], "--after", "10m", "--yes", user="alice")
    assert sooner.out.startswith(f"token {created['id']} expires at 2"), sooner.err
    assert run("token", "expire", created["id"], "--yes", user="alice").out == f"removed token {created['id']}\n"
    assert created["id"] not in run("token", "list", user="alice").out
    unknown = run("token", "renew", created["id"], user="alice")
    assert (unknown.code, "does not exist" in unknown.err) == (1, True)


def test_a_token_has_the_rights_of_its_owner(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "token.properties"
    assert run("topic", "create", "token-orders").code == 0
    assert run("acl", "allow", "alice", "read", "topic:token-orders").code == 0
    assert run("acl", "allow", "alice", "describe", "cluster").code == 0
    done = run("token", "create", "--save", str(file), user="alice")
    assert done.code == 0, done.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # `acl list` needs Describe on the cluster, which alice has, and Alter, which she has not, would be needed to add.
    assert "token-orders" in run("acl", "list", file=file).out
    assert run("acl", "allow", "alice", "write", "topic:token-orders", file=file).code == 1
    again = run("token", "create", file=file)
    assert (again.code, "logged in with a token may not manage tokens" in again.err) == (1, True)
    refused = run("topic", "list", file=file)
    assert (refused.code, "librdkafka does not support" in refused.err) == (1, True)
    exists = run("token", "create", "--save", str(file), user="alice")
    assert (exists.code, "it exists" in exists.err) == (1, True)


def test_a_token_for_another_user_needs_a_right(run: Run) -> None:
    denied = run("token", "create", "--owner", "bob", user="alice")
    assert (denied.code, "create-tokens user:OWNER" in denied.err) == (1, True)
    assert run("acl", "allow", "alice", "create-tokens", "user:bob").code == 0
    (created,) = run("token", "create", "--owner", "bob", "--format", "json", user="alice").json()
    assert (created["owner"], created["requester"]) == ("User:bob", "User:alice")
    assert run("token", "create", "--owner", "admin", user="alice").code == 1


@pytest.mark.parametrize("text", ["", "d", "0s", "-1h", "1w", "1.5h", "99999999d"])
def test_a_wrong_time_is_explained(run: Run, text: str) -> None:
    done = run("token", "create", "--lifetime", text)
    assert (done.code, "such as 30s" in done.err) == (1, True)
