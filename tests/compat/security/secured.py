"""A broker with a listener for each security protocol, and the credentials of its user."""

from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path

from penstock.testing import Broker
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates, first_user, jaas

USER, PASSWORD = "alice", "wonderland"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]
TOKEN_S = 600


class Tokens:
    """An issuer of tokens, with a file of its public keys."""

    def __init__(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._key = rsa.generate_private_key(65537, 2048)
        numbers = self._key.public_key().public_numbers()
        self.file = folder / "jwks.json"
        public = {"kty": "RSA", "kid": "k", "n": _encode(numbers.n.to_bytes(256)), "e": "AQAB"}
        self.file.write_text(json.dumps({"keys": [public]}))

    def issue(self, subject: str = USER, *, symmetric: bool = False) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        now = int(time.time())
        head = {"alg": "HS256" if symmetric else "RS256", "kid": "k"}
        claims = {"sub": subject, "exp": now + TOKEN_S, "iat": now, "aud": "kafka"}
        signed = f"{_encode(json.dumps(head).encode())}.{_encode(json.dumps(claims).encode())}"
        if symmetric:
            return f"{signed}.{_encode(hmac.digest(b'secret', signed.encode(), 'sha256'))}"
        return f"{signed}.{_encode(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def options(self) -> dict[str, str]:
        return {
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.file}",
            "sasl.oauthbearer.expected.audience": "kafka",
        }


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Secured:
    """A broker with a listener for each protocol."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        self.tokens = Tokens(folder)
        self.ports = dict(zip(("SASL_PLAINTEXT", "SASL_SSL", "SSL"), free_ports(3), strict=True))
        self.broker = Broker(
            {
                **self.certificates.broker_options(),
                **self.tokens.options(),
                "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.ssl.ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
                "bootstrap.scram.credentials": first_user(USER, PASSWORD),
                **{
                    f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas(**{USER: PASSWORD})
                    for name in PROTOCOLS
                },
            },
            port=self.ports["SSL"],
        )

    def bootstrap(self, protocol: str) -> str:
        return f"{HOST}:{self.ports[protocol]}"
