"""The TLS settings of a listener, for both sides of its connections. Values only; the network port opens the files."""

from penstock.config.listeners import ListenerConfig
from penstock.ports.network import TlsSettings, TlsStore


def server_tls(listener: ListenerConfig) -> TlsSettings | None:
    """Return how a listener accepts connections; None if it does not use TLS."""
    if not listener.is_tls:
        return None
    return TlsSettings(
        key_store=_key_store(listener),
        trust_store=_trust_store(listener),
        client_auth=listener.client_auth,
        protocols=listener.get("ssl.enabled.protocols"),
        allows_other_name=listener.get("ssl.allow.dn.changes"),
        allows_fewer_hosts=listener.get("ssl.allow.san.changes"),
    )


def client_tls(listener: ListenerConfig) -> TlsSettings | None:
    """Return how this node connects to a listener of another node; None if that does not use TLS."""
    if not listener.is_tls:
        return None
    return TlsSettings(
        key_store=_key_store(listener),
        trust_store=_trust_store(listener),
        protocols=listener.get("ssl.enabled.protocols"),
        checks_host_name=listener.get("ssl.endpoint.identification.algorithm") == "https",
    )


def _key_store(listener: ListenerConfig) -> TlsStore | None:
    location, key = listener.get("ssl.keystore.location"), listener.get("ssl.keystore.key")
    if location is None and key is None:
        return None
    return TlsStore(
        location=None if key is not None else location,
        kind=listener.get("ssl.keystore.type"),
        password=listener.get("ssl.keystore.password"),
        key=key,
        key_password=listener.get("ssl.key.password"),
        certificates=listener.get("ssl.keystore.certificate.chain"),
    )


def _trust_store(listener: ListenerConfig) -> TlsStore | None:
    location, certificates = listener.get("ssl.truststore.location"), listener.get("ssl.truststore.certificates")
    if location is None and certificates is None:
        return None
    return TlsStore(
        location=None if certificates is not None else location,
        kind=listener.get("ssl.truststore.type"),
        password=listener.get("ssl.truststore.password"),
        certificates=certificates,
    )
