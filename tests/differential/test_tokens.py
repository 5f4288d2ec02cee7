"""Delegation tokens on Apache Kafka with StandardAuthorizer and on Penstock: requests, rights and logins."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.serial.errors import OutOfBoundValue

from penstock.testing import Broker
from tests.differential.compare import compare, report
from tests.differential.differences import unexplained
from tests.differential.entities import read_response, request_frame
from tests.differential.run import BROKER_PROPERTIES
from tests.differential.session import Session
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually
from tests.support.java_tools import JavaMissing
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST, free_ports
from tests.support.security import jaas
from tests.support.token_login import LoginFailed, TokenSession

pytestmark = [pytest.mark.java, pytest.mark.slow]

KEY = "the key of all tokens"
USERS = {"admin": "admin-secret", "alice": "wonderland", "bob": "builder", "carol": "singer"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
LISTENER = "SASL_PLAINTEXT"
PROPERTIES = {
    **BROKER_PROPERTIES,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(**USERS),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
    "delegation.token.secret.key": KEY,
    "delegation.token.max.lifetime.ms": "36000000",
    "delegation.token.expiry.time.ms": "3600000",
}
HOUR_MS = 3_600_000
FOREVER_MS = 10**15
USER, TOKEN = 7, 6
DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 8, 13, 14
Scenario = Callable[["Peer"], None]


def principal(name: str, kind: str = "User") -> dict[str, str]:
    return {"principal_type": kind, "principal_name": name}


def ask(session: Session, api: str, version: int, **values: Any) -> dict[str, Any]:
    """Return a response; its bytes if it has a time of -1, which the decoder rejects."""
    frame = session.exchange(request_frame(api, version, values))
    assert isinstance(frame, bytes), frame
    try:
        return read_response(api, version, frame)
    except OutOfBoundValue:
        return {"frame": frame.hex()}


class Peer:
    """One of the two brokers. Times are noted in relation to when a token was issued, ids and HMACs by their form."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sessions: dict[str, LoggedIn] = {}
        self.steps = Session("tokens", HOST, port)

    def of(self, user: str) -> LoggedIn:
        if user not in self._sessions:
            self._sessions[user] = LoggedIn("tokens", HOST, self._port, user=user, password=USERS[user])
        return self._sessions[user]

    def hang_up(self) -> None:
        for session in self._sessions.values():
            session.hang_up()

    def ask(self, user: str, api: str, version: int, label: str = "", **values: Any) -> dict[str, Any]:
        answer = ask(self.of(user), api, version, **values)
        self.note(f"{user}: {api} v{version} {label}", answer)
        return answer

    def note(self, label: str, answer: Any) -> None:
        self.steps.note(label, _masked(answer) if isinstance(answer, dict) else answer)

    def create(self, user: str = "alice", label: str = "", *, version: int = 3, **values: Any) -> dict[str, Any]:
        fields = {"renewers": [], "max_lifetime": -1, **values}
        return self.ask(user, "create_delegation_token", version, label, **fields)

    def renew(self, user: str, token: dict[str, Any], period: int = -1, label: str = "") -> dict[str, Any]:
        secret = bytes.fromhex(token["hmac"])
        began = _now()
        answer = ask(self.of(user), "renew_delegation_token", 2, hmac=secret, renew_period=period)
        return self._note_expiry(f"{user}: renew {period} {label}", answer, began)

    def expire(self, user: str, token: dict[str, Any], period: int = -1, label: str = "") -> dict[str, Any]:
        secret = bytes.fromhex(token["hmac"])
        began = _now()
        answer = ask(self.of(user), "expire_delegation_token", 2, hmac=secret, expiry_time_period=period)
        return self._note_expiry(f"{user}: expire {period} {label}", answer, began)

    def _note_expiry(self, label: str, answer: dict[str, Any], began: int) -> dict[str, Any]:
        when = answer.get("expiry_timestamp", 0)
        # In minutes, because the brokers take some seconds to answer on a busy machine.
        relative = when if when <= 0 else round((when - began) / 60_000)
        self.note(label, {**answer, "expiry_timestamp": relative})
        return answer

    def describe(self, user: str, label: str = "", *, owners: Any = None, version: int = 3) -> None:
        answer = self.of(user).ask("describe_delegation_token", version, owners=owners)
        assert isinstance(answer, dict), answer
        tokens = sorted(map(_masked, answer["tokens"]), key=str)
        self.note(f"{user}: describe v{version} {label}", {**answer, "tokens": tokens})

    def grant(self, kind: int, name: str, operation: int, who: str) -> None:
        acl = {
            "resource_type": kind, "resource_name": name, "resource_pattern_type": 3, "principal": f"User:{who}",
            "host": "*", "operation": operation, "permission_type": 3,
        }  # fmt: skip
        self.ask("admin", "create_acls", 3, creations=[acl])
        self.wait(lambda: self._has_acl(acl))

    def _has_acl(self, acl: dict[str, Any]) -> bool:
        wanted = {
            "resource_type_filter": acl["resource_type"], "resource_name_filter": acl["resource_name"],
            "pattern_type_filter": 3, "principal_filter": acl["principal"], "host_filter": None, "operation": 1,
            "permission_type": 1,
        }  # fmt: skip
        return bool(ask(self.of("admin"), "describe_acls", 3, **wanted)["resources"])

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait until a change has arrived: Kafka answers before its brokers have applied it."""
        eventually(holds, what="the change")

    def log_in(self, label: str, token: dict[str, Any], mechanism: str, **changes: Any) -> TokenSession | None:
        fields = {"token_id": token["token_id"], "hmac": bytes.fromhex(token["hmac"]), **changes}
        session = TokenSession("tokens", HOST, self._port, mechanism=mechanism, **fields)
        try:
            answer = session.log_in()
        except LoginFailed as failure:
            (answer,) = failure.args
            session.hang_up()
            answer = answer if isinstance(answer, str) else {"error_code": answer["error_code"]}
            self.note(f"{label}: log in with {mechanism}", answer)
            return None
        lifetime = answer["session_lifetime"]
        self.note(
            f"{label}: log in with {mechanism}", {"hours": round(lifetime / HOUR_MS), "code": answer["error_code"]}
        )
        return session

    def settle(self, user: str, token: dict[str, Any]) -> None:
        """Wait until the broker and the controller have applied a new token."""
        self.wait(lambda: self._is_visible(user, token))
        # The controller has a cache of its own, which only its answers show.
        secret = bytes.fromhex(token["hmac"])
        missing = "62 delegation_token_not_found"
        other = self.of("carol")
        self.wait(
            lambda: ask(other, "renew_delegation_token", 2, hmac=secret, renew_period=-1)["error_code"] != missing
        )

    def _is_visible(self, user: str, token: dict[str, Any]) -> bool:
        tokens = ask(self.of(user), "describe_delegation_token", 3, owners=None)["tokens"]
        return any(each["token_id"] == token["token_id"] for each in tokens)


def _now() -> int:
    return int(time.time() * 1000)


def _masked(answer: dict[str, Any]) -> dict[str, Any]:
    masked = dict(answer)
    token_id = masked.get("token_id")
    if token_id:
        expected = hmac.new(KEY.encode(), token_id.encode(), hashlib.sha512).hexdigest()
        masked["hmac"] = "HMAC of the id" if masked["hmac"] == expected else masked["hmac"]
        masked["token_id"] = f"{len(token_id)} characters"
        issued = masked["issue_timestamp"]
        for name in ("expiry_timestamp", "max_timestamp"):
            masked[name] = f"{masked[name] - issued} ms later"
        masked["issue_timestamp"] = "now" if abs(issued - _now()) < HOUR_MS else issued
    return masked


def creation(peer: Peer) -> None:
    for version in (1, 2, 3):
        peer.create(version=version, renewers=[principal("bob")])
    for lifetime in (0, 1000, 2 * HOUR_MS, 100 * HOUR_MS, FOREVER_MS, -5):
        peer.create(label=f"lifetime {lifetime}", max_lifetime=lifetime)
    owner: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    peer.create(label="for bob", **owner)
    peer.create("admin", "for bob", **owner)
    peer.create(label="for itself", owner_principal_type="User", owner_principal_name="alice")
    peer.create(label="for nobody", owner_principal_type="User", owner_principal_name="")
    peer.create(label="for bob without a type", **{**owner, "owner_principal_type": ""})
    peer.create(label="a group renews", renewers=[principal("bob"), principal("x", "Group")])
    peer.grant(USER, "User:bob", CREATE_TOKENS, "carol")
    # The controller has an authorizer of its own.
    wanted = {**owner, "renewers": [], "max_lifetime": -1}
    peer.wait(lambda: "token_id" in ask(peer.of("carol"), "create_delegation_token", 3, **wanted))
    peer.create("carol", "for bob with a right", **owner)
    peer.create("carol", "for alice without", owner_principal_type="User", owner_principal_name="alice")


def renewal_and_expiry(peer: Peer) -> None:
    token = peer.create(renewers=[principal("bob")])
    peer.settle("alice", token)
    for user in ("alice", "bob", "carol", "admin"):
        for period in (-1, 0, 60_000, 100 * HOUR_MS, FOREVER_MS):
            peer.renew(user, token, period)
        for period in (60_000, FOREVER_MS):
            peer.expire(user, token, period)
    for user in ("carol", "admin"):
        peer.expire(user, token)
    peer.expire("bob", token)
    peer.wait(lambda: not peer._is_visible("alice", token))
    peer.renew("alice", token, label="a removed one")
    peer.expire("alice", token, label="a removed one")
    peer.renew("alice", {"hmac": ""}, label="without an HMAC")
    short = peer.create(label="short", max_lifetime=1)
    peer.settle("alice", short)
    peer.wait(lambda: _now() > short["max_timestamp"])
    peer.renew("alice", short, label="an expired one")
    peer.renew("carol", short, label="an expired one")
    peer.expire("alice", short, 1000, "an expired one")
    peer.expire("carol", short, 1000, "an expired one")
    peer.expire("alice", short, label="an expired one")


def description(peer: Peer) -> None:
    # Tokens of the other scenarios are removed first.
    for user in ("alice", "bob", "carol", "admin"):
        answer = peer.of(user).ask("describe_delegation_token", 3, owners=[principal(user)])
        assert isinstance(answer, dict)
        for each in answer["tokens"]:
            peer.of(user).ask("expire_delegation_token", 2, hmac=bytes.fromhex(each["hmac"]), expiry_time_period=-1)
    first = peer.create(renewers=[principal("bob")])
    second = peer.create("bob", max_lifetime=HOUR_MS)
    for user, token in (("alice", first), ("bob", second)):
        peer.settle(user, token)
    for user in ("alice", "bob", "carol", "admin"):
        for version in (1, 2, 3):
            peer.describe(user, version=version)
        for names in ((), ("alice",), ("bob",), ("nobody",), ("bob", "alice")):
            peer.describe(user, f"of {names}", owners=[principal(name) for name in names])
    peer.grant(USER, "User:bob", DESCRIBE_TOKENS, "carol")
    peer.describe("carol", "with a right on the user")
    peer.grant(TOKEN, first["token_id"], DESCRIBE, "carol")
    peer.describe("carol", "with a right on the token, too")


def logins(peer: Peer) -> None:
    token = peer.create("alice", renewers=[principal("bob")])
    peer.settle("alice", token)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        session = peer.log_in("alice's token", token, mechanism)
        assert session is not None
        try:
            for version in (1, 2, 3):
                answer = ask(session, "create_delegation_token", version, renewers=[], max_lifetime=1000)
                peer.note(f"a token creates one v{version}", answer)
                peer.note("a token describes", ask(session, "describe_delegation_token", version, owners=None))
            secret = bytes.fromhex(token["hmac"])
            peer.note("a token renews itself", ask(session, "renew_delegation_token", 2, hmac=secret, renew_period=1))
            answer = ask(session, "expire_delegation_token", 2, hmac=secret, expiry_time_period=-1)
            peer.note("a token expires itself", answer)
            answer = ask(
                session,
                "describe_acls",
                3,
                resource_type_filter=2,
                pattern_type_filter=1,
                operation=1,
                permission_type=1,
            )
            peer.note("a token has no rights", answer["error_code"])
        finally:
            session.hang_up()
        peer.log_in("a wrong HMAC", token, mechanism, hmac=b"x" * 64)
        peer.log_in("a wrong id", token, mechanism, token_id="alice")
    peer.expire("alice", token)


SCENARIOS: tuple[Scenario, ...] = (creation, renewal_and_expiry, description, logins)


@pytest.fixture(scope="module")
def kafka_port() -> Iterator[int]:
    try:
        process = ApacheKafka(properties=PROPERTIES, listeners=[LISTENER])
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with process:
        yield int(process.address(LISTENER).rpartition(":")[2])


@pytest.fixture(scope="module")
def penstock_port(kafka_port: int) -> Iterator[int]:
    (port,) = free_ports(1)
    with Broker({**PROPERTIES, "listeners": f"{LISTENER}://{HOST}:{port}"}, port=port):
        yield port


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_penstock_treats_tokens_as_kafka_does(scenario: Scenario, kafka_port: int, penstock_port: int) -> None:
    transcripts = []
    for port in (kafka_port, penstock_port):
        peer = Peer(port)
        try:
            scenario(peer)
        finally:
            peer.hang_up()
        transcripts.append(peer.steps.steps)
    faults = unexplained(compare(f"tokens {scenario.__name__}", *transcripts))
    assert not faults, f"\n{report(faults)}"
