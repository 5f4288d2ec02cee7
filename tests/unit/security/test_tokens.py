"""The passwords of delegation tokens, and logins with them."""

import base64
import hashlib
import hmac

import pytest

from penstock.config.listeners import listener_config
from penstock.config.settings import BrokerSettings
from penstock.security.mechanism import Accepted, AuthenticationFailed, Challenge
from penstock.security.mechanisms import ServerMechanisms
from penstock.security.principal import TokenPrincipal, decode_principal, encode_principal, token_owner, user
from penstock.security.scram import HASHES, ScramClient, ScramCredential
from penstock.security.tokens import CREDENTIALS_MAX, DelegationToken, TokenSecrets
from tests.unit.handlers.fakes import FakeEntropy

SECRETS = TokenSecrets("key")
ALICE = user("alice")
TOKEN = DelegationToken("id", ALICE, ALICE, (user("bob"),), 1, 1000, 500)


def test_the_hmac_is_that_of_kafka() -> None:
    assert SECRETS.hmac("id") == hmac.new(b"key", b"id", hashlib.sha512).digest()


@pytest.mark.parametrize(("now_ms", "expected"), [(0, True), (500, True), (501, False), (1001, False)])
def test_a_token_is_valid_until_it_expires(now_ms: int, expected: bool) -> None:
    assert TOKEN.is_valid(now_ms) is expected


def test_a_token_is_found_in_each_image() -> None:
    secrets = TokenSecrets("key")
    later = TOKEN._replace(expires_at_ms=600)
    assert secrets.find({"id": TOKEN}, secrets.hmac("id")) == TOKEN
    assert secrets.find({"id": later, "other": TOKEN._replace(id="other")}, secrets.hmac("id")) == later
    assert secrets.find({"other": TOKEN}, secrets.hmac("id")) is None


def test_few_credentials_are_kept() -> None:
    secrets = TokenSecrets("key")
    secrets._credentials = {("m", str(number)): None for number in range(CREDENTIALS_MAX)}  # type: ignore[misc]
    secrets.credential("SCRAM-SHA-256", "id", b"salt")
    assert len(secrets._credentials) == 1


def test_the_owner_of_a_token_is_the_user_itself() -> None:
    assert token_owner("alice") == ALICE
    assert hash(token_owner("alice")) == hash(ALICE)
    assert not ALICE.is_token


@pytest.mark.parametrize("is_token", [False, True])
def test_an_envelope_says_whether_a_token_was_used(is_token: bool) -> None:
    decoded = decode_principal(encode_principal((token_owner if is_token else user)("alice")))
    assert (decoded, decoded.is_token, isinstance(decoded, TokenPrincipal)) == (ALICE, is_token, is_token)


class Login:
    """A listener with one token."""

    def __init__(self, mechanism: str = "SCRAM-SHA-256", *, is_enabled: bool = True) -> None:
        settings = BrokerSettings({"listeners": "SASL_PLAINTEXT://:0", "sasl.enabled.mechanisms": ",".join(HASHES)})
        self.mechanism = mechanism
        self.tokens = {"id": TOKEN}
        self.credentials: dict[tuple[str, int], ScramCredential] = {}
        self._servers = ServerMechanisms(
            listener_config(settings, "SASL_PLAINTEXT"),
            credentials=lambda: self.credentials,
            random=FakeEntropy().stream("x"),
            unknown_users_secret=lambda: "secret",
            tokens=lambda: self.tokens,
            token_secrets=SECRETS if is_enabled else None,
        )

    def run(self, name: str, password: str, *, is_token: bool = True) -> tuple[bytes, Accepted]:
        """Return the server's first message behind the nonce, and its verdict."""
        server = self._servers.start(self.mechanism)
        client = ScramClient(self.mechanism, name, password, nonce="client", is_token=is_token)
        challenge = server.step(client.first())
        assert isinstance(challenge, Challenge)
        proof = client.step(challenge.message)
        assert proof is not None
        accepted = server.step(proof)
        assert isinstance(accepted, Accepted)
        assert client.step(accepted.message) is None
        return challenge.message, accepted

    def first(self, message: str) -> bytes:
        challenge = self._servers.start(self.mechanism).step(message.encode())
        assert isinstance(challenge, Challenge)
        return challenge.message.partition(b",s=")[2]


PASSWORD = base64.b64encode(SECRETS.hmac("id")).decode()


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_client_logs_in_with_a_token(mechanism: str) -> None:
    _, accepted = Login(mechanism).run("id", PASSWORD)
    assert (accepted.user, accepted.expires_at_ms, accepted.is_token) == ("alice", 500, True)


@pytest.mark.parametrize(
    ("name", "password", "is_token"),
    [("id", "guess", True), ("other", PASSWORD, True), ("alice", PASSWORD, True), ("id", PASSWORD, False)],
)
def test_only_the_right_token_with_its_hmac_is_accepted(name: str, password: str, is_token: bool) -> None:
    with pytest.raises(AuthenticationFailed):
        Login().run(name, password, is_token=is_token)


def test_a_removed_token_is_rejected() -> None:
    login = Login()
    login.run("id", PASSWORD)
    login.tokens = {}
    with pytest.raises(AuthenticationFailed):
        login.run("id", PASSWORD)


def test_a_renewed_token_has_its_new_time() -> None:
    login = Login()
    login.run("id", PASSWORD)
    login.tokens = {"id": TOKEN._replace(expires_at_ms=900)}
    assert login.run("id", PASSWORD)[1].expires_at_ms == 900


def test_without_a_key_no_token_is_accepted() -> None:
    with pytest.raises(AuthenticationFailed):
        Login(is_enabled=False).run("id", PASSWORD)


def test_the_first_message_does_not_reveal_whether_a_token_exists() -> None:
    message = "n,,n=id,r=client,tokenauth=true"
    login = Login()
    known = login.first(message)
    login.tokens = {}
    assert login.first(message) == known
    assert Login(is_enabled=False).first(message) == known


@pytest.mark.parametrize("extensions", ["tokenauth=TRUE", "a=b,tokenauth=true", "tokenauth=true,c=d"])
def test_the_extension_is_found_among_others(extensions: str) -> None:
    assert Login().first(f"n,,n=id,r=client,{extensions}")


def test_the_authorization_id_of_a_token_must_be_the_token() -> None:
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        Login().first("n,a=alice,n=id,r=client,tokenauth=true")
    assert Login().first("n,a=id,n=id,r=client,tokenauth=true")


def test_users_that_change_during_a_login_do_not_disturb_it() -> None:
    login = Login()
    server = login._servers.start("SCRAM-SHA-256")
    login.credentials = {("alice", 1): ScramCredential(b"salt", b"", b"", 8192)}
    login._servers.start("SCRAM-SHA-512")
    client = ScramClient("SCRAM-SHA-256", "id", PASSWORD, nonce="client", is_token=True)
    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.step(challenge.message)
    assert proof is not None
    assert isinstance(server.step(proof), Accepted)
