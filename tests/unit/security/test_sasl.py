"""The states of a SASL connection: every state with every kind of request."""

import pytest

from penstock.security.mechanism import Accepted, AuthenticationFailed, Challenge, ServerMechanism
from penstock.security.principal import user
from penstock.security.sasl import SaslServer, State, Verdict
from penstock.wire.api import APIS, ApiKey

NOW = 1_000_000


class Scripted:
    """A mechanism whose tokens say what happens."""

    def step(self, message: bytes) -> Challenge | Accepted:
        word, _, rest = message.decode().partition(" ")
        if word == "more":
            return Challenge(b"continue")
        if word == "fail":
            raise AuthenticationFailed("no")
        name, _, expires = rest.partition("@")
        return Accepted(b"welcome", name, int(expires) if expires else None)


def start(mechanism: str) -> ServerMechanism:
    return Scripted()


def server(lifetime_ms_max: int = 0) -> SaslServer:
    return SaslServer(("PLAIN", "SCRAM-SHA-256"), start, lambda mechanism: lifetime_ms_max)


def authenticated(lifetime_ms_max: int = 0, token: bytes = b"ok alice") -> SaslServer:
    one = server(lifetime_ms_max)
    one.handshake("PLAIN", 1, NOW)
    assert one.authenticate(token, NOW, wall_ms=NOW) is not None
    return one


def in_state(state: State) -> SaslServer:
    one = server()
    if state is State.GREETED:
        one.greeted()
    elif state in (State.TOKENS, State.BARE_TOKENS):
        one.handshake("PLAIN", 1 if state is State.TOKENS else 0, NOW)
    elif state is State.AUTHENTICATED:
        one = authenticated()
    elif state is State.CLOSED:
        one.handshake("NONE", 1, NOW)
    assert one.state is state
    return one


ACCEPTED = {
    State.START: {ApiKey.API_VERSIONS: Verdict.GREET, ApiKey.SASL_HANDSHAKE: Verdict.HANDSHAKE},
    State.GREETED: {ApiKey.SASL_HANDSHAKE: Verdict.HANDSHAKE},
    State.TOKENS: {ApiKey.SASL_AUTHENTICATE: Verdict.TOKEN},
    State.CLOSED: {},
}


@pytest.mark.parametrize("state", ACCEPTED)
@pytest.mark.parametrize("api_key", APIS)
def test_before_authentication_only_the_listed_requests_are_accepted(state: State, api_key: int) -> None:
    verdict = in_state(state).classify(api_key, APIS[api_key].max_version, NOW)
    assert verdict is ACCEPTED[state].get(api_key, Verdict.ILLEGAL if state is State.TOKENS else Verdict.CLOSE)


@pytest.mark.parametrize("api_key", APIS)
def test_an_authenticated_client_may_send_everything(api_key: int) -> None:
    assert in_state(State.AUTHENTICATED).classify(api_key, 0, NOW) is Verdict.PASS


def test_after_a_handshake_of_version_0_tokens_have_no_header() -> None:
    one = in_state(State.BARE_TOKENS)
    assert one.authenticate(b"ok alice", NOW, wall_ms=NOW) is not None
    assert one.state is State.AUTHENTICATED


def test_an_unknown_version_closes_except_for_api_versions() -> None:
    assert server().classify(ApiKey.SASL_HANDSHAKE, 2, NOW) is Verdict.CLOSE
    assert in_state(State.TOKENS).classify(ApiKey.SASL_AUTHENTICATE, 9, NOW) is Verdict.CLOSE
    assert server().classify(ApiKey.API_VERSIONS, 99, NOW) is Verdict.GREET


def test_an_unknown_mechanism_gets_the_list_and_closes() -> None:
    one = server()
    assert one.handshake("GSSAPI", 1, NOW) == (33, ("PLAIN", "SCRAM-SHA-256"), True)
    assert one.state is State.CLOSED


def test_another_request_than_a_token_is_final() -> None:
    one = in_state(State.TOKENS)
    one.illegal()
    assert one.state is State.CLOSED
    assert one.classify(ApiKey.SASL_AUTHENTICATE, 1, NOW) is Verdict.CLOSE


def test_an_exchange_may_take_several_tokens() -> None:
    one = in_state(State.TOKENS)
    assert one.authenticate(b"more", NOW, wall_ms=NOW) == (0, "", b"continue", 0, False)
    assert one.state is State.TOKENS
    assert one.authenticate(b"ok alice", NOW, wall_ms=NOW) == (0, "", b"welcome", 0, True)
    assert (one.state, one.principal, one.expires_at_ms) == (State.AUTHENTICATED, user("alice"), None)


def test_a_failure_is_final() -> None:
    one = in_state(State.TOKENS)
    assert one.authenticate(b"fail", NOW, wall_ms=NOW) == (58, "no", b"", 0, False)
    assert one.classify(ApiKey.SASL_AUTHENTICATE, 1, NOW) is Verdict.CLOSE
    assert one.classify(ApiKey.SASL_HANDSHAKE, 1, NOW) is Verdict.CLOSE
    assert one.principal is None


@pytest.mark.parametrize(
    ("lifetime_ms_max", "expires", "lifetime"),
    [(0, "", 0), (5000, "", 5000), (0, f"@{NOW + 7000}", 7000), (5000, f"@{NOW + 7000}", 5000),
     (9000, f"@{NOW + 7000}", 7000)],
)  # fmt: skip
def test_a_session_lives_as_long_as_its_shortest_limit(lifetime_ms_max: int, expires: str, lifetime: int) -> None:
    one = server(lifetime_ms_max)
    one.handshake("PLAIN", 1, NOW)
    reply = one.authenticate(f"ok alice{expires}".encode(), NOW, wall_ms=NOW)
    assert reply is not None and reply.lifetime_ms == lifetime
    assert one.expires_at_ms == (NOW + lifetime if lifetime else None)


def test_an_expired_credential_is_rejected() -> None:
    one = in_state(State.TOKENS)
    reply = one.authenticate(f"ok alice@{NOW}".encode(), NOW, wall_ms=NOW)
    assert reply is not None and reply.error_code == 58


def test_an_expired_session_accepts_only_a_handshake() -> None:
    one = authenticated(5000)
    assert one.classify(ApiKey.PRODUCE, 9, NOW + 4999) is Verdict.PASS
    assert one.classify(ApiKey.PRODUCE, 9, NOW + 5000) is Verdict.CLOSE
    assert one.classify(ApiKey.SASL_HANDSHAKE, 1, NOW + 5000) is Verdict.HANDSHAKE


def test_reauthentication_begins_a_new_session() -> None:
    one = authenticated(5000)
    assert one.classify(ApiKey.SASL_HANDSHAKE, 1, NOW) is Verdict.HANDSHAKE, "the first may come any time"
    assert not one.handshake("PLAIN", 1, NOW + 1000).closes
    assert one.authenticate(b"ok alice", NOW + 1100, wall_ms=NOW + 1100) is not None
    assert one.classify(ApiKey.PRODUCE, 9, NOW + 6099) is Verdict.PASS
    assert one.classify(ApiKey.SASL_HANDSHAKE, 1, NOW + 1999) is Verdict.PASS, "answered with ILLEGAL_SASL_STATE"
    assert one.classify(ApiKey.SASL_HANDSHAKE, 1, NOW + 2000) is Verdict.HANDSHAKE


def test_reauthentication_cannot_change_the_principal() -> None:
    one = authenticated(5000)
    one.handshake("PLAIN", 1, NOW)
    reply = one.authenticate(b"ok bob", NOW + 2000, wall_ms=NOW + 2000)
    assert reply is not None and reply.error_code == 58
    assert (one.principal, one.state) == (user("alice"), State.CLOSED)


def test_reauthentication_with_another_mechanism_closes_at_the_first_token() -> None:
    one = authenticated(5000)
    assert not one.handshake("SCRAM-SHA-256", 1, NOW).closes
    assert one.authenticate(b"ok alice", NOW + 2000, wall_ms=NOW + 2000) is None
    assert one.state is State.CLOSED
