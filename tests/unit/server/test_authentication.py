"""Connections before, during and after authentication, without a network."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from penstock.config.listeners import listener_config
from penstock.config.settings import BrokerSettings
from penstock.metrics.metrics import Metrics
from penstock.ports.network import TlsSettings, TlsStore
from penstock.security.mechanisms import ServerMechanisms
from penstock.security.names import parse_rules
from penstock.security.principal import ANONYMOUS, Principal, user
from penstock.security.scram import ScramClient, ScramCredential, credential_from_salted, salted_password
from penstock.server.authentication import AUTHENTICATION_S_MAX, FailureDelays, ListenerSecurity
from penstock.server.session import ClientSession
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_response_header, request_head
from penstock_sim.certificates import certificate_of
from tests.support.security import jaas
from tests.unit.ports.ticking import TickingClock

SIZE_MAX = 524_288


class Peer:
    """A connection that records what is sent, and a dispatcher that records what reaches it."""

    peer_host, peer_port, local_port = "10.0.0.1", 5, 1

    def __init__(self) -> None:
        self.is_node = True
        self.peer_certificate: bytes | None = None
        self.sent: list[bytes] = []
        self.dispatched: list[int] = []
        self.size_max: int | None = None
        self.is_closed = self.is_paused = False

    def dispatch(self, frame: memoryview, session: ClientSession) -> tuple[bytes, ...]:
        self.dispatched.append(int.from_bytes(frame[:2]))
        return (b"answer",)

    def send(self, parts: tuple[bytes, ...]) -> None:
        self.sent.append(b"".join(parts))

    def limit_frames(self, size_max: int | None) -> None:
        self.size_max = size_max

    def pause_frames(self) -> None:
        self.is_paused = True

    def close(self) -> None:
        self.is_closed = True


class Stage:
    def __init__(self, *, lifetime_ms: int = 0, listener: str = "SASL_PLAINTEXT", **options: str) -> None:
        self.clock = TickingClock()
        settings = BrokerSettings.load(
            file={
                "listeners": f"{listener}://:1",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(alice="secret", bob="secret"),
                "connections.max.reauth.ms": str(lifetime_ms),
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        salted = salted_password("SCRAM-SHA-256", "secret", b"salt", 4096)
        self.credentials = {("alice", 1): credential_from_salted("SCRAM-SHA-256", b"salt", 4096, salted)}
        config = listener_config(settings, listener)
        self.metrics = Metrics({})
        self.security = ListenerSecurity(
            config,
            clock=self.clock,
            metrics=self.metrics,
            delays=FailureDelays(self.clock),
            mechanisms=ServerMechanisms(config, credentials=self._credentials, random=Random(1))
            if config.is_sasl
            else None,
            rules=parse_rules(config.get("ssl.principal.mapping.rules")),
            is_for_nodes=True,
            node_principals={user("bob")},
        )
        self.open()

    def _credentials(self) -> dict[tuple[str, int], ScramCredential]:
        return self.credentials

    def open(self) -> None:
        self.peer = Peer()
        self.inner = ClientSession(cast(Any, self.peer), "listener", cast(Any, self.peer), lambda: None)
        self.session = self.security.wrap(self.inner)

    def is_closed(self) -> bool:
        return self.peer.is_closed

    @property
    def principal(self) -> Principal:
        return self.inner.principal

    def ask(self, api_key: int, version: int, request: Any) -> Any:
        """Send a request; return the response if there is one."""
        body = codec.write_request(api_key, version, request)
        frame = bytearray(request_head(api_key, version, 7, "test", len(body)) + body)[4:]
        self.session.frame(memoryview(frame))
        if not self.peer.sent:
            return None
        return self.read(api_key, version)

    def read(self, api_key: int, version: int) -> Any:
        view = memoryview(self.peer.sent.pop()[4:])
        _, position = parse_response_header(api_key, version, view)
        return codec.read_response(api_key, version, view[position:])

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def token(self, data: bytes, version: int = 1) -> Any:
        return self.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=data))

    def login(self, name: str = "alice", version: int = 1) -> Any:
        self.handshake()
        return self.token(f"\0{name}\0secret".encode(), version)

    def produce(self) -> bool:
        """Send a request; return whether it reached the dispatcher."""
        before = len(self.peer.dispatched)
        self.session.frame(memoryview(bytearray(request_head(ApiKey.PRODUCE, 9, 7, "test", 0))[4:]))
        return len(self.peer.dispatched) > before


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_logs_in_and_is_served(version: int) -> None:
    stage = Stage()
    assert (stage.peer.size_max, stage.principal, stage.peer.is_node) == (SIZE_MAX, ANONYMOUS, False)
    answer = stage.login(version=version)
    assert int(answer.error_code) == 0
    assert (stage.peer.size_max, stage.principal, stage.peer.is_node) == (None, user("alice"), False)
    assert stage.produce()
    assert stage.metrics.authentications.value == 1


def test_a_node_is_recognized() -> None:
    stage = Stage()
    stage.login("bob")
    assert stage.peer.is_node


def test_scram_through_a_session() -> None:
    stage = Stage()
    client = ScramClient("SCRAM-SHA-256", "alice", "secret", nonce="abc")
    stage.handshake("SCRAM-SHA-256")
    final = client.step(stage.token(client.first()).auth_bytes)
    assert final is not None
    assert client.step(stage.token(final).auth_bytes) is None
    assert stage.principal == user("alice")


def test_bare_tokens_follow_the_handshake_of_version_0() -> None:
    stage = Stage()
    stage.handshake(version=0)
    stage.session.frame(memoryview(bytearray(b"\0alice\0secret")))
    assert stage.peer.sent == [b"\0\0\0\0"]
    assert stage.principal == user("alice")


def test_api_versions_is_answered_once_before_the_login() -> None:
    stage = Stage()
    wrong = ApiVersionsRequest(client_software_name="", client_software_version="")
    right = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for request in (wrong, right):
        body = codec.write_request(ApiKey.API_VERSIONS, 3, request)
        stage.session.frame(memoryview(bytearray(request_head(ApiKey.API_VERSIONS, 3, 1, "t", len(body)) + body)[4:]))
    assert stage.peer.dispatched == [18, 18]
    stage.session.frame(memoryview(bytearray(request_head(ApiKey.API_VERSIONS, 0, 1, "t", 0))[4:]))
    assert stage.peer.dispatched == [18, 18], "a second one closes the connection"
    stage.clock.tick(0.1)
    assert stage.is_closed()


@pytest.mark.parametrize("begun", [False, True])
def test_any_other_request_before_the_login_closes_without_a_response(begun: bool) -> None:
    stage = Stage()
    if begun:
        stage.handshake()
    assert not stage.produce()
    stage.clock.tick(0.1)
    assert stage.is_closed()
    assert stage.peer.sent == []


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x11\0\x01\0\0\0\1", b"\0\x24\0\1\0\0\0\1\xff\xff\x7f\xff\xff\xff"])
def test_malformed_frames_close_the_connection(frame: bytes) -> None:
    stage = Stage()
    stage.session.frame(memoryview(bytearray(frame)))
    stage.clock.tick(0.1)
    assert stage.is_closed()


def test_a_failure_is_answered_and_closed_after_the_delay() -> None:
    stage = Stage()
    stage.handshake()
    assert stage.token(b"\0alice\0wrong") is None
    assert (stage.peer.is_paused, stage.is_closed(), stage.peer.sent) == (True, False, [])
    assert not stage.produce()
    stage.clock.tick(0.1)
    assert stage.is_closed()
    answer = stage.read(ApiKey.SASL_AUTHENTICATE, 1)
    assert (int(answer.error_code), answer.error_message) == (58, "Authentication failed: Invalid username or password")
    assert stage.metrics.failed_authentications.value == 1


def test_the_delay_grows_for_an_address_that_fails_often() -> None:
    stage = Stage()
    for _ in range(10):
        stage.open()
        stage.handshake()
        stage.token(b"\0alice\0wrong")
    stage.open()
    stage.handshake()
    stage.token(b"\0alice\0wrong")
    stage.clock.tick(0.3)
    assert not stage.is_closed()
    stage.clock.tick(0.1)
    assert stage.is_closed()
    stage.clock.tick(100)
    stage.clock.tick(61)
    stage.open()
    stage.handshake()
    stage.token(b"\0alice\0wrong")
    stage.clock.tick(0.1)
    assert stage.is_closed()


def test_an_unknown_mechanism_gets_the_list() -> None:
    stage = Stage()
    assert stage.handshake("GSSAPI") is None
    stage.clock.tick(0.1)
    answer = stage.read(ApiKey.SASL_HANDSHAKE, 1)
    assert (int(answer.error_code), answer.mechanisms) == (33, ("PLAIN", "SCRAM-SHA-256"))
    assert stage.is_closed()


def test_a_client_that_does_not_log_in_is_closed() -> None:
    stage = Stage()
    stage.handshake()
    stage.clock.tick(AUTHENTICATION_S_MAX)
    stage.clock.tick(0.1)
    assert stage.is_closed()
    other = Stage()
    other.login()
    other.clock.tick(AUTHENTICATION_S_MAX + 1)
    assert not other.is_closed()


def test_an_expired_session_must_authenticate_again() -> None:
    stage = Stage(lifetime_ms=5000)
    assert stage.login().session_lifetime.total_seconds() == 5
    stage.clock.tick(4)
    assert stage.produce()
    assert int(stage.handshake().error_code) == 0
    assert int(stage.token(b"\0alice\0secret").error_code) == 0
    stage.clock.tick(4)
    assert stage.produce()
    stage.clock.tick(2)
    assert not stage.produce(), "the session has expired"
    stage.clock.tick(0.1)
    assert stage.is_closed()


def test_the_principal_cannot_change() -> None:
    stage = Stage(lifetime_ms=5000)
    stage.login("alice")
    stage.clock.tick(2)
    stage.handshake()
    stage.token(b"\0bob\0secret")
    stage.clock.tick(0.1)
    assert stage.is_closed()
    assert (stage.principal, stage.peer.is_node) == (user("alice"), False)


def certificate_stage(name: str | None, **options: Any) -> Stage:
    stage = Stage(
        listener="SSL",
        ssl_keystore_location="x",
        ssl_truststore_location="x",
        ssl_client_auth="requested",
        **options,
    )
    if name is not None:
        stage.peer.peer_certificate = certificate_of(TlsSettings(key_store=TlsStore(certificates=name)))
    return stage


def test_the_subject_of_a_certificate_is_the_principal() -> None:
    stage = certificate_stage("carol")
    assert stage.produce()
    assert (stage.principal, stage.peer.is_node) == (user("CN=carol"), False)


def test_a_rule_maps_the_subject() -> None:
    stage = certificate_stage("BOB", ssl_principal_mapping_rules="RULE:^CN=(.*)$/$1/L")
    assert stage.produce()
    assert (stage.principal, stage.peer.is_node) == (user("bob"), True)


def test_a_subject_without_a_rule_is_rejected() -> None:
    stage = certificate_stage("carol", ssl_principal_mapping_rules="RULE:^CN=x$/y/")
    assert not stage.produce()
    assert stage.is_closed()


def test_a_client_without_a_certificate_is_anonymous() -> None:
    stage = certificate_stage(None)
    assert stage.produce()
    assert stage.principal == ANONYMOUS
