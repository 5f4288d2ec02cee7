"""The listeners of both brokers with TLS and SASL, and their users."""

from __future__ import annotations

from typing import Final

from tests.support.security import Certificates, jaas

USER, PASSWORD = "alice", "wonderland"
OTHER, OTHER_PASSWORD = "bob", "builder"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS: Final = 3000

LISTENERS: Final = {
    "SASL": "SASL_PLAINTEXT",
    "SESSIONS": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "TLS12": "SSL",
    "TLS13": "SSL",
}
"""Names and protocols. Sessions of SESSIONS end; MTLS needs a client certificate; the last two have one TLS version."""


def secured_properties(certificates: Certificates) -> dict[str, str]:
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    properties = {
        **certificates.broker_options(),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "0",
        "listener.name.sessions.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.tls12.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.tls13.ssl.enabled.protocols": "TLSv1.3",
    }
    for name in ("sasl", "sessions"):
        users = jaas(**{USER: PASSWORD, OTHER: OTHER_PASSWORD})
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = users
        for mechanism in MECHANISMS[1:]:
            properties[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = scram
    return properties
