"""SCRAM credentials: described and altered."""

from __future__ import annotations

import time

from tests.differential.scenario import scenario
from tests.differential.session import SETTLE_SECONDS_MAX, Session

SALT = b"0123456789abcdef"
SALTED = b"s" * 32


def upsertion(
    name: str, *, mechanism: int = 1, iterations: int = 4096, salt: bytes = SALT, salted: bytes = SALTED
) -> dict[str, object]:
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": salt, "salted_password": salted}


def deletion(name: str, mechanism: int = 1) -> dict[str, object]:
    return {"name": name, "mechanism": mechanism}


def alter(
    s: Session,
    label: str,
    *,
    deletions: list[dict[str, object]] | None = None,
    upsertions: list[dict[str, object]] | None = None,
) -> None:
    answer = s.ask("alter_user_scram_credentials", 0, deletions=deletions or [], upsertions=upsertions or [])
    if isinstance(answer, dict):
        answer["results"].sort(key=lambda result: result["user"])
    s.note(f"alter {label}", answer)


def describe(s: Session, label: str, *names: str, credentials: int, iterations: int | None = None) -> None:
    """Describe users once the broker knows as many credentials as expected, with these iterations."""
    users = [{"name": name} for name in names]
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        answer = s.ask("describe_user_scram_credentials", 0, users=users)
        infos = [each["credential_infos"] for each in answer["results"]] if isinstance(answer, dict) else []
        found = [info["iterations"] for each in infos for info in each]
        is_known = len(found) == credentials and (iterations is None or set(found) == {iterations})
        if is_known or time.monotonic() > deadline:
            break
    for each in infos:
        each.sort(key=lambda info: info["mechanism"])  # Kafka's order is that of a hash table
    s.note(f"describe {label}", answer)


@scenario
def scram_credentials_are_altered(s: Session) -> None:
    a, b = s.name("a"), s.name("b")
    alter(s, "one", upsertions=[upsertion(a)])
    describe(s, "one", a, credentials=1)
    alter(s, "the same again", upsertions=[upsertion(a)])
    alter(s, "more iterations", upsertions=[upsertion(a, iterations=16384)])
    alter(s, "one mechanism", upsertions=[upsertion(b)])
    alter(s, "another mechanism", upsertions=[upsertion(b, mechanism=2, salted=b"s" * 64)])
    describe(s, "both", a, b, credentials=3)
    describe(s, "one twice", a, a, credentials=0)
    s.call("describe_user_scram_credentials", 0, "of a user without", users=[{"name": s.name("c")}])
    alter(s, "a deletion", deletions=[deletion(b, 2)])
    describe(s, "after the deletion", b, credentials=1)
    alter(s, "it again", deletions=[deletion(b, 2)])
    alter(s, "one user gone, one changed", deletions=[deletion(a)], upsertions=[upsertion(b, iterations=8192)])
    describe(s, "the other", b, credentials=1, iterations=8192)
    alter(s, "the last", deletions=[deletion(b)])
    describe(s, "nobody", a, b, credentials=0)


@scenario
def scram_credentials_that_are_refused(s: Session) -> None:
    a = s.name("a")
    for iterations in (-1, 0, 4095, 16385, 2**31 - 1):
        alter(s, f"{iterations} iterations", upsertions=[upsertion(a, iterations=iterations)])
    for mechanism in (-1, 0, 3, 127):
        alter(s, f"mechanism {mechanism}", upsertions=[upsertion(a, mechanism=mechanism)])
        alter(s, f"deletion of mechanism {mechanism}", deletions=[deletion(a, mechanism)])
    alter(s, "no name", upsertions=[upsertion("")])
    alter(s, "a deletion without a name", deletions=[deletion("")])
    alter(s, "a deletion of nobody", deletions=[deletion(s.name("nobody"))])
    alter(s, "nothing")
    alter(s, "one twice", upsertions=[upsertion(a), upsertion(a, iterations=8192)])
    alter(s, "deleted and inserted", deletions=[deletion(a)], upsertions=[upsertion(a)])
    alter(s, "deleted twice", deletions=[deletion(a), deletion(a)])
    alter(s, "one good, one bad", upsertions=[upsertion(s.name("good")), upsertion(s.name("bad"), iterations=1)])
    alter(s, "two mechanisms of a user", upsertions=[upsertion(a), upsertion(a, mechanism=2, iterations=1)])
    describe(s, "the good one", s.name("good"), s.name("bad"), a, credentials=1)
    alter(s, "no salt", upsertions=[upsertion(s.name("unsalted"), salt=b"")])
    alter(s, "no password", upsertions=[upsertion(s.name("open"), salted=b"")])
    alter(s, "the good one gone", deletions=[deletion(s.name("good"))])
    s.ask("alter_user_scram_credentials", 0, deletions=[deletion(s.name("unsalted"))], upsertions=[])
