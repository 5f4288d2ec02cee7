"""The audit: what is denied, or would be, in the topic and in the suggestions of `penstock acl suggest`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.testing import Broker
from tests.support.command import Outcome, penstock
from tests.support.eventually import eventually

pytest.importorskip("cryptography")

PASSWORD = "wonderland"
TOPIC = "__penstock_audit"


class Audited:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._file = broker.data / "security" / "client.properties"

    def run(self, *words: str, user: str = "", given: str = "") -> Outcome:
        login = ("-X", f"sasl.username={user}", "-X", f"sasl.password={PASSWORD}") if user else ()
        where = ("--bootstrap", self._broker.bootstrap, "--command-config", str(self._file))
        return penstock(*words, *where, *login, given=given)

    def add(self, name: str) -> None:
        assert self.run("user", "add", name, "--password-stdin", given=f"{PASSWORD}\n").code == 0

    def events(self, **wanted: Any) -> list[dict[str, Any]]:
        read = self.run("consume", TOPIC, "--from", "earliest", "-f", "%s\\n")
        found = [json.loads(line) for line in read.out.splitlines()]
        return [event for event in found if wanted.items() <= event.items()]


@pytest.fixture(scope="module", params=["enforce", "audit"])
def audited(request: pytest.FixtureRequest) -> Iterator[Audited]:
    with Broker({"authorizer.mode": request.param}, secure=True) as broker:
        made = Audited(broker)
        for name in ("ann", "ben"):
            made.add(name)
        assert made.run("topic", "create", "orders").code == 0
        yield made


def test_denials_are_recorded_and_suggestions_allow_them(audited: Audited, request: pytest.FixtureRequest) -> None:
    is_enforced = "enforce" in request.node.name
    produced = audited.run("produce", "orders", user="ann", given="a\n")
    assert (produced.code != 0) is is_enforced
    about = {"principal": "User:ann", "resource": "orders", "verdict": "denied"}
    eventually(lambda: bool(audited.events(**about)))
    event = audited.events(**about)[0]
    assert (event["enforced"], event["host"], event["node"]) == (is_enforced, "127.0.0.1", 1)
    for _ in range(5):  # a client tries one right after the other
        audited.run("produce", "orders", user="ann", given="a\n")
        eventually(lambda: bool(audited.events(**about)))
        suggested = audited.run("acl", "suggest", "--principal", "ann")
        commands = [line.partition("  #")[0] for line in suggested.out.splitlines()]
        for command in commands:
            done = audited.run(*shlex.split(command)[1:])
            assert done.code == 0, done.err
    assert audited.run("acl", "check", "ann", "write", "topic:orders").code == 0
    assert audited.run("produce", "orders", user="ann", given="b\n").code == 0
    assert audited.run("acl", "check", "ann", "read", "topic:orders").code == 1, "no more than what was used"


def test_no_acl_lets_a_user_write_the_audit(audited: Audited, request: pytest.FixtureRequest) -> None:
    audited.run("acl", "check", "ben", "describe", "cluster")
    assert audited.run("acl", "allow", "ben", "all", "topic:*").code == 0
    audited.run("acl", "list", user="ben")
    eventually(lambda: bool(audited.events(principal="User:ben")))
    forged = audited.run("produce", TOPIC, user="ben", given='{"principal": "User:forged"}\n')
    if "enforce" in request.node.name:
        assert forged.code != 0
        assert not audited.events(principal="User:forged")
    assert audited.run("acl", "allow", "ben", "read", "group:penstock-cli").code == 0
    assert audited.run("consume", TOPIC, "--from", "earliest", user="ben").code == 0
