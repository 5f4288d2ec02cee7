"""One test for each known vulnerability that concerns the identity of clients and nodes."""

from __future__ import annotations

import ast
import struct
from pathlib import Path

import pytest
from kio.serial import entity_reader

from penstock.config.settings import BrokerSettings
from penstock.model.errors import InvalidConfig, StartupError
from penstock.security.jaas import parse_jaas
from penstock.security.scram import ScramClient
from penstock.testing import Broker
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import parse_response_header, request_head
from tests.security.wire import RawClient

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_cve_2017_12610_another_users_authorization_id_is_rejected(secured: Broker, mechanism: str) -> None:
    with RawClient(secured.port) as client:
        client.handshake(mechanism)
        message = b"bob\0alice\0wonderland" if mechanism == "PLAIN" else b"n,a=bob,n=alice,r=nonce"
        assert int(client.token(message).error_code) == 58


@pytest.mark.parametrize("api_key", [key for key, api in APIS.items() if api.between_nodes])
def test_cve_2018_1288_a_client_cannot_act_as_a_node(secured: Broker, api_key: int) -> None:
    with RawClient(secured.port) as client:
        client.handshake("PLAIN")
        assert int(client.token(b"\0alice\0wonderland").error_code) == 0
        client.send(request_head(api_key, APIS[api_key].max_version, 1, "penstock-node-2", 0))
        assert client.is_closed()


def test_cve_2018_1288_a_client_cannot_fetch_as_a_replica(secured: Broker) -> None:
    replica, wait, least, most, isolation, session, epoch = 2, 0, 0, 1000, 0, 0, -1
    body = struct.pack(">iiiibiiiii", replica, wait, least, most, isolation, session, epoch, 0, 0, 0)[:-4]
    with RawClient(secured.port) as client:
        client.handshake("PLAIN")
        client.token(b"\0alice\0wonderland")
        client.send(request_head(ApiKey.FETCH, 7, 1, "penstock-node-2", len(body)) + body)
        assert client.is_closed()


_SECRET = (
    "client_key", "credential", "digest", "hmac", "jaas", "nonce", "password", "pem", "private", "proof", "salted",
    "secret", "server_key", "signature", "stored_key", "token",
)  # fmt: skip
"""Parts of names of values that an attacker may try to guess byte by byte."""
_SOURCES = [*(ROOT / "src" / "penstock").rglob("*.py"), *(ROOT / "client" / "src").rglob("*.py")]


def _names(node: ast.expr) -> str:
    return " ".join(
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    ).lower()


def _is_harmless(side: ast.expr) -> bool:
    """A constant of the source is no secret, and a length is not its content."""
    is_length = isinstance(side, ast.Call) and isinstance(side.func, ast.Name) and side.func.id == "len"
    return is_length or isinstance(side, ast.Constant)


def compared_secrets(source: str) -> list[str]:
    """Return the comparisons of secrets whose time depends on where they differ."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        and not any(map(_is_harmless, (node.left, *node.comparators)))
        and any(word in _names(node) for word in _SECRET)
    ]


@pytest.mark.parametrize(
    "bad",
    ["if password == given: pass", "ok = self.stored_key != found", "x = token_of(user) == sent", "a.pem == b.pem"],
)
def test_the_lint_finds_a_comparison_of_secrets(bad: str) -> None:
    assert compared_secrets(bad)


@pytest.mark.parametrize("good", ["len(password) == len(given)", "token == ';'", "compare_digest(password, given)"])
def test_the_lint_accepts_what_reveals_nothing(good: str) -> None:
    assert not compared_secrets(good)


def test_cve_2021_38153_secrets_are_compared_in_constant_time() -> None:
    assert len(_SOURCES) > 500, "the sources were found"
    found = {str(path.relative_to(ROOT)): compared_secrets(path.read_text()) for path in _SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("size", [524_289, 100 * 1024 * 1024, 2**31 - 1])
def test_cve_2022_34917_large_requests_are_refused_before_authentication(secured: Broker, size: int) -> None:
    with RawClient(secured.port) as client:
        client.send(struct.pack(">i", size) + b"\0\x24\0\1")
        assert client.is_closed()


def test_cve_2022_34917_the_limit_ends_with_the_login(secured: Broker) -> None:
    with RawClient(secured.port) as client:
        client.handshake("PLAIN")
        client.token(b"\0alice\0wonderland")
        client.send(struct.pack(">i", 600_000) + request_head(ApiKey.API_VERSIONS, 0, 1, "test", 0)[4:])
        client._socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.is_closed()


@pytest.mark.parametrize("suffix", ["x", "nonce"])
def test_cve_2024_56128_the_nonce_must_be_the_servers(secured: Broker, suffix: str) -> None:
    with RawClient(secured.port) as client:
        client.handshake("SCRAM-SHA-256")
        login = ScramClient("SCRAM-SHA-256", "alice", "wonderland", nonce="nonce")
        final = login.step(client.token(login.first()).auth_bytes)
        assert final is not None
        assert int(client.token(final.replace(b"r=nonce", b"r=" + suffix.encode() + b"nonce")).error_code) == 58


def test_cve_2025_27818_no_login_module_is_loaded() -> None:
    for module in ("com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule"):
        with pytest.raises(InvalidConfig, match="unknown login module"):
            parse_jaas(f'{module} required user.provider.url="ldap://evil";')


def test_cve_2026_33557_a_node_without_keys_for_tokens_does_not_start() -> None:
    with pytest.raises(StartupError, match="no keys to verify tokens"):
        BrokerSettings.load(file={"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "OAUTHBEARER"})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_unknown_user_and_a_wrong_password_look_the_same(secured: Broker, mechanism: str) -> None:
    seen = []
    for name in ("alice", "nobod"):
        with RawClient(secured.port) as client:
            client.handshake(mechanism)
            if mechanism == "PLAIN":
                answer = client.token(f"\0{name}\0wrong".encode())
                sizes = [0]
            else:
                login = ScramClient(mechanism, name, "wrong", nonce="nonce")
                first = client.token(login.first()).auth_bytes
                sizes = [len(first)]
                answer = client.token(login.step(first) or b"")
            seen.append((sizes, int(answer.error_code), answer.error_message))
            assert client.is_closed()
    assert seen[0] == seen[1]


def test_every_request_before_authentication_is_refused(secured: Broker) -> None:
    for api_key, api in APIS.items():
        if api_key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            continue
        with RawClient(secured.port) as client:
            client.send(request_head(api_key, api.max_version, 1, "test", 0))
            assert client.is_closed(), api.name


@pytest.mark.parametrize("api_key", APIS)
def test_other_requests_during_authentication_are_refused(secured: Broker, api_key: int) -> None:
    """They get ILLEGAL_SASL_STATE in their own format, or no response if errors belong to the items of the request."""
    if api_key == ApiKey.SASL_AUTHENTICATE:
        return
    version = APIS[api_key].max_version
    with RawClient(secured.port) as client:
        client.handshake("PLAIN")
        client.send(request_head(api_key, version, 1, "test", 3) + b"\xff\xff\xff")
        frame = client.frame()
        if frame is not None:
            _, position = parse_response_header(api_key, version, memoryview(frame))
            layout = codec.response_class(api_key, version)
            answer, _ = entity_reader(layout)(frame[position:], 0)
            assert int(answer.error_code) == 34
            assert client.frame() is None
        assert (frame is None) is (codec.write_error(api_key, version, 34, "") is None)
