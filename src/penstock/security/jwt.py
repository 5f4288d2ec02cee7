"""Signed JSON Web Tokens (RFC 7519): parsing, keys, and the checks of a token.

Only asymmetric signatures are accepted, with a key of the operator's JWKS document whose type fits the algorithm;
`none` and HMAC are not known here (CVE-2026-33557). Signatures are verified by `cryptography`, which is imported when
the first key is loaded. Refuses: InvalidToken.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

TOKEN_SIZE_MAX: Final = 64 * 1024
_HASHES: Final = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}
_CURVES: Final = {"ES256": ("P-256", 32), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}
ALGORITHMS: Final = frozenset({
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
})  # fmt: skip


class InvalidToken(Exception):
    """The token is malformed, not signed by a known key, or not valid now."""


class InvalidKeys(Exception):
    """The JWKS document has no usable key."""


class Key(NamedTuple):
    kid: str | None
    algorithms: frozenset[str]
    """The algorithms that this key may verify."""
    public: Any


class Claims(NamedTuple):
    user: str
    expires_at_ms: int


class Expected(NamedTuple):
    """What a token must contain."""

    issuer: str | None = None
    audiences: Collection[str] = ()
    user_claim: str = "sub"
    skew_s: int = 30


def load_keys(document: bytes | str) -> list[Key]:
    """Return the usable signature keys of a JWKS document."""
    try:
        entries = json.loads(document)["keys"]
    except (ValueError, TypeError, KeyError):
        raise InvalidKeys('the document is not a JWKS document: it has no "keys"') from None
    keys = [key for entry in entries if isinstance(entry, dict) and (key := _key(entry)) is not None]
    if not keys:
        raise InvalidKeys("the JWKS document has no RSA or EC key for signatures")
    return keys


def _key(entry: Mapping[str, Any]) -> Key | None:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if entry.get("use", "sig") != "sig":
        return None
    curves = {
        "P-256": ("ES256", ec.SECP256R1()),
        "P-384": ("ES384", ec.SECP384R1()),
        "P-521": ("ES512", ec.SECP521R1()),
    }
    try:
        if entry.get("kty") == "RSA":
            public: Any = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()
            fitting = frozenset(name for name in ALGORITHMS if name[0] in "RP")
            if public.key_size < 2048:
                return None
        elif entry.get("kty") == "EC" and entry.get("crv") in curves:
            algorithm, curve = curves[entry["crv"]]
            public = ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve).public_key()
            fitting = frozenset({algorithm})
        else:
            return None
    except (KeyError, ValueError, TypeError, InvalidToken):
        return None
    if "alg" in entry:
        fitting &= {entry["alg"]}
    kid = entry.get("kid")
    return Key(kid if isinstance(kid, str) else None, fitting, public) if fitting else None


def key_id(token: str) -> str | None:
    """Return the id of the key that a token claims to be signed with."""
    kid = _parts(token)[0].get("kid")
    return kid if isinstance(kid, str) else None


def verify(token: str, keys: Collection[Key], expected: Expected, *, now_ms: int) -> Claims:
    """Check the signature and the claims of a token."""
    header, claims, signed, signature = _parts(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken("the algorithm of the token is not accepted")
    if "crit" in header:
        raise InvalidToken("the token has critical extensions")
    fitting = [key for key in keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
    if not any(_is_signed(key, algorithm, signed, signature) for key in fitting):
        raise InvalidToken("the token is not signed by a known key")
    return _check_claims(claims, expected, now_ms)


def _check_claims(claims: Mapping[str, Any], expected: Expected, now_ms: int) -> Claims:
    skew_ms = expected.skew_s * 1000
    expires = _time(claims, "exp")
    if expires is None:
        raise InvalidToken("the token never expires")
    if now_ms >= expires + skew_ms:
        raise InvalidToken("the token has expired")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and begins > now_ms + skew_ms:
            raise InvalidToken("the token is not valid yet")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise InvalidToken("the token has another issuer")
    if expected.audiences:
        named = claims.get("aud")
        named = [named] if isinstance(named, str) else named
        if not isinstance(named, list) or not set(expected.audiences) & {each for each in named if type(each) is str}:
            raise InvalidToken("the token is for another audience")
    user = claims.get(expected.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken("the token names no user")
    return Claims(user, expires)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidToken(f"the claim {name} of the token is not a time")
    return int(value * 1000)


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    words = token.split(".")
    if len(words) != 3 or len(token) > TOKEN_SIZE_MAX:
        raise InvalidToken("the token is not a signed JWT")
    try:
        header, claims = (json.loads(_decode(word)) for word in words[:2])
    except (ValueError, RecursionError):
        raise InvalidToken("the token is not a signed JWT") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise InvalidToken("the token is not a signed JWT")
    return header, claims, f"{words[0]}.{words[1]}".encode(), _decode(words[2])


def _is_signed(key: Key, algorithm: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

    digest = getattr(hashes, _HASHES[algorithm[2:]])()
    try:
        if algorithm.startswith("ES"):
            size = _CURVES[algorithm][1]
            if len(signature) != 2 * size:
                return False
            left, right = (int.from_bytes(half) for half in (signature[:size], signature[size:]))
            key.public.verify(utils.encode_dss_signature(left, right), signed, ec.ECDSA(digest))
        elif algorithm.startswith("PS"):
            padded = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)
            key.public.verify(signature, signed, padded, digest)
        else:
            key.public.verify(signature, signed, padding.PKCS1v15(), digest)
    except InvalidSignature:
        return False
    return True


def _number(text: str) -> int:
    return int.from_bytes(_decode(text))


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidToken("the token contains invalid base64") from None
