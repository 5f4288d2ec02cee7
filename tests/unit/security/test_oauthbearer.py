"""OAUTHBEARER and its tokens; PyJWT signs them if it is installed."""

import base64
import hmac
import json
import time
from functools import cache
from typing import Any

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.security.jwt import Claims, Expected, InvalidKeys, InvalidToken, load_keys, verify
from penstock.security.mechanism import Accepted, AuthenticationFailed, Challenge
from penstock.security.oauthbearer import OauthBearerServer

jwt = pytest.importorskip("jwt")

NOW_S = int(time.time())
EC_KEY = ec.generate_private_key(ec.SECP256R1())


@cache
def rsa_key(name: str = "known") -> rsa.RSAPrivateKey:
    """Return the key of this name. Making one takes long, so it is not done when the tests are collected."""
    return rsa.generate_private_key(65537, 2048)


def entry(key: Any, kid: str, **more: str) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", **more}


@cache
def known_keys() -> Any:
    return load_keys(json.dumps({"keys": [entry(rsa_key(), "r"), entry(EC_KEY, "e"), {"kty": "oct", "k": "AAAA"}]}))


CLAIMS = {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S, "iss": "me", "aud": ["kafka", "x"]}


def sign(claims: dict[str, Any], key: Any = None, algorithm: str = "RS256", **headers: Any) -> str:
    return str(jwt.encode(claims, key or rsa_key(), algorithm, headers={"kid": "r", **headers}))


def check(token: str, **expected: Any) -> Claims:
    return verify(token, known_keys(), Expected(**expected), now_ms=NOW_S * 1000)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_token_signed_with_a_known_key_is_valid(algorithm: str) -> None:
    assert check(sign(CLAIMS, algorithm=algorithm)) == ("alice", (NOW_S + 60) * 1000)


def test_elliptic_curves_work_too() -> None:
    assert check(sign(CLAIMS, EC_KEY, "ES256", kid="e")).user == "alice"


def test_issuer_and_audience_are_checked() -> None:
    assert check(sign(CLAIMS), issuer="me", audiences=("kafka",)).user == "alice"
    assert check(sign({**CLAIMS, "aud": "kafka"}), audiences=("other", "kafka")).user == "alice"
    for wrong in ({"issuer": "you"}, {"audiences": ("y",)}):
        with pytest.raises(InvalidToken):
            check(sign(CLAIMS), **wrong)
    with pytest.raises(InvalidToken):
        check(sign({name: value for name, value in CLAIMS.items() if name != "aud"}), audiences=("kafka",))


@pytest.mark.parametrize(
    "change",
    [{"exp": NOW_S - 31}, {"exp": None}, {"exp": "soon"}, {"nbf": NOW_S + 31}, {"iat": NOW_S + 31}, {"sub": None},
     {"sub": " "}, {"sub": 7}],
)  # fmt: skip
def test_wrong_claims_are_rejected(change: dict[str, Any]) -> None:
    claims = {name: value for name, value in {**CLAIMS, **change}.items() if value is not None}
    # PyJWT refuses to sign some of these, so the payload is signed as bytes.
    token = jwt.api_jws.encode(json.dumps(claims).encode(), rsa_key(), "RS256", headers={"kid": "r"})
    with pytest.raises(InvalidToken):
        check(token)


def test_clocks_may_differ_a_little() -> None:
    assert check(sign({**CLAIMS, "exp": NOW_S - 29, "nbf": NOW_S + 29})).user == "alice"


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(value: object) -> str:
    return unpadded(json.dumps(value).encode())


def test_unsigned_and_symmetric_tokens_are_rejected() -> None:
    public = (
        rsa_key().public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    # An attacker may sign with the public key as if it were a secret.
    symmetric = f"{encoded({'alg': 'HS256', 'kid': 'r'})}.{encoded(CLAIMS)}"
    for token in (
        f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}.",
        f"{encoded({'alg': 'None', 'kid': 'r'})}.{encoded(CLAIMS)}.",
        f"{encoded({'alg': 'RS256', 'kid': 'r'})}.{encoded(CLAIMS)}.",
        f"{symmetric}.{unpadded(hmac.digest(public, symmetric.encode(), 'sha256'))}",
    ):
        with pytest.raises(InvalidToken):
            check(token)


def test_other_tokens_are_rejected() -> None:
    for token in (
        sign(CLAIMS, rsa_key("other")),
        sign(CLAIMS, kid="e"),
        sign(CLAIMS, kid="unknown"),
        sign(CLAIMS, crit=["x"]),
        sign(CLAIMS) + "A",
        sign(CLAIMS).replace(".", ".A", 1),
        "a.b",
        "a.b.c",
        "....",
        "",
        f"{encoded([])}.{encoded(CLAIMS)}.AA",
        f"{encoded({'alg': ['RS256']})}.{encoded(CLAIMS)}.AA",
    ):
        with pytest.raises(InvalidToken):
            check(token)


def test_a_key_is_used_only_for_its_algorithm() -> None:
    keys = load_keys(json.dumps({"keys": [entry(rsa_key(), "r", alg="PS256")]}))
    assert verify(sign(CLAIMS, algorithm="PS256"), keys, Expected(), now_ms=NOW_S * 1000).user == "alice"
    with pytest.raises(InvalidToken):
        verify(sign(CLAIMS), keys, Expected(), now_ms=NOW_S * 1000)


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AA"}]}'])
def test_a_document_without_keys_is_rejected(document: str) -> None:
    with pytest.raises(InvalidKeys):
        load_keys(document)


def server() -> OauthBearerServer:
    return OauthBearerServer(lambda token: check(token))


def message(token: str, authzid: str = "", more: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {token}\x01{more}\x01".encode()


def test_a_client_with_a_valid_token_is_accepted() -> None:
    for authzid, more in (("", ""), ("a=alice", ""), ("", "ext=1\x01")):
        accepted = server().step(message(sign(CLAIMS), authzid, more))
        assert accepted == Accepted(b"", "alice", (NOW_S + 60) * 1000)


def test_an_invalid_token_is_answered_with_json_before_it_fails() -> None:
    one = server()
    assert one.step(message("a.b.c")) == Challenge(b'{"status":"invalid_token"}')
    for answer in (b"\x01", message(sign(CLAIMS))):
        with pytest.raises(AuthenticationFailed):
            one.step(answer)


@pytest.mark.parametrize(
    "data", [b"", b"n,,", b"n,,\x01\x01", b"\xff", b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01auth=Basic x\x01\x01"]
)
def test_malformed_messages_fail(data: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        server().step(data)


def test_another_authorization_id_fails() -> None:
    with pytest.raises(AuthenticationFailed, match="different from the token's user"):
        server().step(message(sign(CLAIMS), "a=bob"))


def test_keys_that_must_not_verify_tokens_are_not_used() -> None:
    small = rsa.generate_private_key(65537, 1024)
    unusable = [
        entry(rsa_key(), "encryption", use="enc"),
        entry(small, "small"),
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA"},
        {"kty": "RSA", "e": "AQAB", "n": "!"},
        entry(EC_KEY, "other algorithm", alg="RS256"),
        "no object",
    ]
    assert [key.kid for key in load_keys(json.dumps({"keys": [*unusable, entry(EC_KEY, "e")]}))] == ["e"]
    with pytest.raises(InvalidKeys, match="no RSA or EC key for signatures"):
        load_keys(json.dumps({"keys": unusable}))


def test_a_signature_of_another_length_is_rejected() -> None:
    head, claims, signature = sign(CLAIMS, EC_KEY, "ES256", kid="e").split(".")
    assert check(f"{head}.{claims}.{signature}").user == "alice"
    with pytest.raises(InvalidToken, match="not signed by a known key"):
        check(f"{head}.{claims}.{signature[:40]}")
