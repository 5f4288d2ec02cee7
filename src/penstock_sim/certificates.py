"""Certificates of the simulator: names instead of signatures.

The certificate text of a key store is the common name of its owner; a trust store is a list of the names that it
trusts. A handshake succeeds if both sides use TLS and each trusts the other, as far as certificates are required, and
if no fault prevents it: `CertificateFaults` lets certificates expire, replaces them by untrusted ones and stalls
handshakes. As with real TLS, connections that are open stay open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

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


STALLED_S = 10.0
"""When a handshake that does not end is given up, as by the real port."""


@dataclass(slots=True)
class CertificateFaults:
    """The machines whose handshakes fail at present."""

    expired: set[str] = field(default_factory=set)
    untrusted: set[str] = field(default_factory=set)
    stalling: set[str] = field(default_factory=set)
    ended_at: float = -inf
    """When the last of these faults ended."""

    def may_delay(self, now: float) -> bool:
        """Return whether a connection may still wait for the end of a handshake that failed."""
        return bool(self.expired or self.untrusted or self.stalling) or now - self.ended_at < STALLED_S

    def stalls(self, server: str, tls: TlsSettings | None) -> bool:
        return tls is not None and server in self.stalling

    def problem(self, client: str, server: str, tls: TlsSettings | None) -> str | None:
        """Return why a handshake with a listener fails now; None if it succeeds."""
        if tls is None:
            return None
        presented = {server: "server"} | ({client: "client"} if tls.client_auth == "required" else {})
        for machine, side in presented.items():
            if machine in self.expired:
                return f"the {side}'s certificate has expired"
            if machine in self.untrusted:
                return f"the {side}'s certificate is not trusted"
        return None


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
