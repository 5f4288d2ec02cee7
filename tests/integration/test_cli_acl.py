"""penstock acl on a secured broker, and what the broker then enforces."""

from __future__ import annotations

import shlex
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
        yield made


@pytest.fixture
def run(broker: Broker) -> Run:
    """Return a function that runs a command, as the administrator or as another user."""
    file = broker.data / "security" / "client.properties"

    def run(*words: str, user: str = "", given: str = "") -> Outcome:
        login = ("-X", f"sasl.username={user}", "-X", f"sasl.password={PASSWORD}") if user else ()
        where = ("--bootstrap", broker.bootstrap, "--command-config", str(file))
        return penstock(*words, *where, *login, given=given)

    return run


def add_user(run: Run, name: str) -> None:
    done = run("user", "add", name, "--password-stdin", given=f"{PASSWORD}\n")
    assert done.code == 0, done.err


def test_a_right_is_given_checked_enforced_and_removed(run: Run) -> None:
    add_user(run, "ann")
    run("topic", "create", "ann-orders")
    assert "ann-orders" not in run("topic", "list", user="ann").out
    denied = run("acl", "check", "ann", "describe", "topic:ann-orders")
    assert denied.code == 1
    assert denied.out.splitlines() == [
        "denied: User:ann describe topic:ann-orders",
        "rule: no ACL for the resource",
        "to allow it: penstock acl allow ann describe topic:ann-orders",
    ]
    added = run("acl", "allow", "ann", "read", "topic:ann-*")
    assert (added.code, added.out) == (0, "added: allow User:ann read topic:ann-*\n")
    allowed = run("acl", "check", "ann", "describe", "topic:ann-orders", "--format", "json")
    assert allowed.code == 0
    (row,) = allowed.json()
    assert (row["verdict"], row["rule"]) == ("allowed", "allow User:ann read topic:ann-*")
    assert "ann-orders" in run("topic", "list", user="ann").out
    assert run(*shlex.split(row["changes"][0])[1:]).code == 0
    assert "ann-orders" not in run("topic", "list", user="ann").out
    denied = run("acl", "check", "ann", "describe", "topic:ann-orders")
    assert "rule: deny User:ann describe topic:ann-orders" in denied.out
    refused = run("acl", "remove", "ann", "any", "any")
    assert refused.code == 1 and "Pass --yes to confirm" in refused.err
    assert len(run("acl", "list", "--principal", "ann", "--format", "json").json()) == 2
    assert run("acl", "remove", "ann", "any", "any", "--permission", "deny", "--yes").out == (
        "removed: deny User:ann describe topic:ann-orders\n"
    )
    assert "ann-orders" in run("topic", "list", user="ann").out
    assert run("acl", "remove", "ann", "read", "topic:ann-*", "--yes").code == 0
    assert "ann-orders" not in run("topic", "list", user="ann").out


def test_acls_are_listed_by_principal_and_resource(run: Run) -> None:
    for words in ("ben read topic:list-a", "ben write topic:list-*", "cid read group:list", "cid alter cluster"):
        assert run("acl", "allow", *words.split()).code == 0
    assert run("acl", "deny", "*", "read", "txn:list", "--host", "10.0.0.1").code == 1  # no such operation
    assert run("acl", "deny", "*", "write", "txn:list", "--host", "10.0.0.1").code == 0
    rows = run("acl", "list", "--resource", "topic:list-a", "--format", "json").json()
    assert [row["resource"] for row in rows] == ["topic:list-*", "topic:list-a"]
    assert rows[0] == {
        "principal": "User:ben", "permission": "allow", "operation": "write", "resource": "topic:list-*",
        "pattern": "prefixed", "host": "*",
    }  # fmt: skip
    of_cid = run("acl", "list", "--principal", "cid").out
    assert "group:list" in of_cid and "cluster" in of_cid and "ben" not in of_cid
    (row,) = run("acl", "list", "--resource", "txn", "--format", "json").json()
    assert (row["permission"], row["principal"], row["host"]) == ("deny", "User:*", "10.0.0.1")


def test_an_administrator_is_a_super_user(run: Run) -> None:
    checked = run("acl", "check", "admin", "alter", "cluster")
    assert checked.code == 0 and "rule: super user" in checked.out
    assert "super.users" in checked.out


def test_a_user_without_the_right_cannot_change_acls(run: Run) -> None:
    add_user(run, "mal")
    for words in ("allow mal all topic:*", "list", "check mal read topic:a", "remove mal any any --yes"):
        refused = run("acl", *words.split(), user="mal")
        assert refused.code == 1 and "luster authorization failed" in refused.err, refused
    none = run("acl", "remove", "mal", "any", "any", "--yes")
    assert none.code == 1 and "No ACL matches" in none.err


def test_a_reader_of_acls_is_told_that_super_users_are_unknown(run: Run) -> None:
    add_user(run, "rita")
    run("acl", "allow", "rita", "describe", "cluster")
    checked = run("acl", "check", "admin", "alter", "cluster", user="rita")
    assert checked.code == 1 and "super.users" in checked.err


def test_without_an_authorizer_the_error_says_what_to_do(tmp_path: Path) -> None:
    with Broker() as plain:
        refused = penstock("acl", "list", "--bootstrap", plain.bootstrap)
    assert refused.code == 1 and "authorizer.class.name" in refused.err
