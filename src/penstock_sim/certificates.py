"""Certificates of the simulator: names instead of signatures.

The certificate text of a key store is the common name of its owner; a trust store is a list of the names that it
trusts. A handshake succeeds if both sides use TLS and each trusts the other, as far as certificates are required.
"""

from __future__ import annotations

from penstock.ports.network import TlsSettings, TlsStore

_COMMON_NAME = bytes.fromhex("0603550403")
_UTF8 = 0x0C


def certificate_of(tls: TlsSettings) -> bytes | None:
    """Return DER bytes with the owner's name as their subject."""
    name = _name(tls)
    if name is None:
        return None
    attribute = _der(0x30, _COMMON_NAME + _der(_UTF8, name.encode()))
    subject = _der(0x30, _der(0x31, attribute))
    empty = _der(0x30, b"")
    return _der(0x30, _der(0x30, _der(0x02, b"\x01") + empty + empty + empty + subject))


def handshake_problem(client: TlsSettings | None, server: TlsSettings | None) -> str | None:
    """Return why a handshake fails; None if it succeeds."""
    if client is None and server is None:
        return None
    if client is None or server is None:
        return "only one side uses TLS"
    if not _trusts(client.trust_store, _name(server)):
        return "the server's certificate is not trusted"
    if server.client_auth == "required" and not _trusts(server.trust_store, _name(client)):
        return "the client's certificate is not trusted"
    return None


def _name(tls: TlsSettings) -> str | None:
    return None if tls.key_store is None else tls.key_store.certificates


def _trusts(store: TlsStore | None, name: str | None) -> bool:
    return store is not None and name is not None and name in (store.certificates or "").split(",")


def _der(tag: int, content: bytes) -> bytes:
    assert len(content) < 0x80, "names are short"
    return bytes((tag, len(content))) + content
