"""TLS handshakes that are accepted and refused. What is compared is the outcome, and the alert that the client gets."""

from __future__ import annotations

import datetime
import socket
import ssl
import struct
import warnings
from pathlib import Path

from tests.differential.entities import framed, request_frame
from tests.differential.scenario import on_listener, scenario
from tests.differential.session import ANSWER_SECONDS_MAX, Session


def outcome(s: Session, context: ssl.SSLContext, *, host: str = "localhost") -> str:
    """Return what a client with these settings sees: the protocol and a response, or the alert."""
    try:
        with (
            socket.create_connection((s.host, s.port), timeout=ANSWER_SECONDS_MAX) as sock,
            context.wrap_socket(sock, server_hostname=host) as connection,
        ):
            connection.sendall(request_frame("api_versions", 0, {}))
            size = connection.recv(4)
            return f"{connection.version()}, {'a response' if len(size) == 4 else 'closed'}"
    except ssl.SSLError as error:
        return f"refused: {error.reason}"
    except (ConnectionError, BrokenPipeError):
        return "closed"


def client(*, certificate: Path | None = None, lowest: str | None = None, highest: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if lowest is not None:
            context.minimum_version = ssl.TLSVersion[lowest]
        if highest is not None:
            context.maximum_version = ssl.TLSVersion[highest]
    if lowest in ("TLSv1", "TLSv1_1") or highest in ("TLSv1", "TLSv1_1"):
        context.set_ciphers("ALL:@SECLEVEL=0")
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def _versions(s: Session) -> None:
    for version in ("TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3"):
        s.note(f"a client with {version} only", outcome(s, client(lowest=version, highest=version)))


@scenario
@on_listener("TLS")
def tls_versions(s: Session) -> None:
    _versions(s)


@scenario
@on_listener("TLS12")
def tls_versions_of_a_listener_with_1_2(s: Session) -> None:
    _versions(s)


@scenario
@on_listener("TLS13")
def tls_versions_of_a_listener_with_1_3(s: Session) -> None:
    _versions(s)


@scenario
@on_listener("TLS")
def tls_ciphers_that_nobody_should_use(s: Session) -> None:
    for name in ("NULL", "aNULL", "RC4", "DES", "EXPORT", "PSK", "ECDHE+AESGCM", "AES128-SHA"):
        context = client(highest="TLSv1_2")
        try:
            context.set_ciphers(f"{name}:@SECLEVEL=0")
        except ssl.SSLError:
            continue
        s.note(name, outcome(s, context))


@scenario
@on_listener("MTLS")
def tls_client_certificates(s: Session) -> None:
    certificates = s.certificates
    assert certificates is not None, "both brokers have certificates"
    now = certificates.now
    day = datetime.timedelta(days=1)
    expired = certificates.issue("expired", days=1, now=now - 3 * day)
    early = certificates.issue("early", days=2, now=now + 3 * day)
    for version in ("TLSv1_2", "TLSv1_3"):
        for label, certificate in {
            "a certificate": certificates.client,
            "no certificate": None,
            "one of a strange authority": certificates.stranger,
            "an expired one": expired,
            "one that is not valid yet": early,
        }.items():
            s.note(f"{version} {label}", outcome(s, client(certificate=certificate, lowest=version, highest=version)))


@scenario
@on_listener("TLS")
def what_is_not_tls(s: Session) -> None:
    for label, sent in {
        "a request": request_frame("api_versions", 0, {}),
        "HTTP": b"GET / HTTP/1.1\r\n\r\n",
        "SSL 2": bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0"),
        "a record that is too large": b"\x16\x03\x01\xff\xff" + b"x" * 100,
        "an alert": bytes.fromhex("15030100020100"),
        "data before the handshake": bytes.fromhex("1703030005") + b"hello",
        "a hello of garbage": b"\x16\x03\x01" + struct.pack(">H", 50) + b"\x01\0\0\x2e" + b"x" * 46,
        "an empty frame": framed(b""),
    }.items():
        got = raw(s, sent)
        s.note(label, got)


def raw(s: Session, sent: bytes) -> str:
    """Return what comes back: an alert, other bytes, or the end of the connection."""
    with socket.create_connection((s.host, s.port), timeout=2) as sock:
        sock.sendall(sent)
        try:
            got = sock.recv(4096)
        except TimeoutError:
            return "open"
        except ConnectionError:
            return "closed"
    if not got:
        return "closed"
    return f"an alert {got[6] if len(got) > 6 else got.hex()}" if got[0] == 0x15 else "something else"
