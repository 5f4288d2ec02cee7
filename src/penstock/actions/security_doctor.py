"""Checks of encryption and authentication, one by one: TLS or plain text, chain, names, expiry, SASL, login.

Each check uses a connection that does only what it needs, so that the first failing step is named. The certificate is
read without verifying it; nothing secret is sent before the chain and the names are right.
"""

import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from penstock.actions.certificates import CertificateInfo, describe_certificate
from penstock.actions.connection import PASSWORD_MECHANISMS, open_secured_socket, open_socket
from penstock.actions.errors import ActionError

EXPIRES_SOON: Final = datetime.timedelta(days=30)
SASL_HANDSHAKE: Final = 17
_UNSUPPORTED_MECHANISM: Final = 33
_NO_MECHANISM: Final = "?"
_ANSWER_SIZE_MAX: Final = 65536
_EXPIRED, _NOT_YET_VALID = 10, 9
"""OpenSSL's codes."""


class Check(NamedTuple):
    """The result of one check. The state is `ok`, `warning` or `wrong`."""

    check: str
    state: str
    found: str
    next_step: str = ""


class _Refused(Exception):
    """The server does not accept the client's certificate, or requires one."""


def check_encryption(host: str, port: int, security: Mapping[str, str]) -> Iterator[Check]:
    """Check whether the listener uses TLS as the properties say, then its certificate."""
    protocol = _protocol(security)
    uses_tls, where = protocol.endswith("SSL"), f"{host}:{port}"
    try:
        expects_tls = _expects_tls(host, port)
    except OSError as error:
        yield Check(f"encryption {where}", "wrong", f"the connection broke: {error}", "Check the log of the broker.")
        return
    if expects_tls != uses_tls:
        found = (
            f"the listener {'expects TLS' if expects_tls else 'uses plain text'}, the client's protocol is {protocol}"
        )
        wanted = "SSL or SASL_SSL" if expects_tls else "PLAINTEXT or SASL_PLAINTEXT"
        yield Check(f"encryption {where}", "wrong", found, f"Set security.protocol to {wanted}, or use another port.")
        return
    if uses_tls:
        yield from _check_tls(host, port, security)
    else:
        yield Check(f"encryption {where}", "ok", "plain text")


def _expects_tls(host: str, port: int) -> bool:
    try:
        _unverified(host, port, {}).close()
    except _Refused:
        return True
    except (ssl.SSLError, ConnectionError, TimeoutError):
        return False
    return True


def _check_tls(host: str, port: int, security: Mapping[str, str]) -> Iterator[Check]:
    where = f"{host}:{port}"
    try:
        with _unverified(host, port, security) as sock:
            version, der = sock.version(), sock.getpeercert(True)
            # With TLS 1.3, the broker refuses the client's certificate only after the client's handshake has ended.
            _ask_for_mechanisms(sock)
    except _Refused as error:
        step = (
            "Set ssl.keystore.location, or ssl.certificate.location and ssl.key.location, to a certificate it accepts."
        )
        yield Check(f"encryption {where}", "wrong", f"the broker refuses the client's certificate: {error}", step)
        return
    except OSError as error:
        yield Check(f"encryption {where}", "wrong", str(error), "Check the files in the client properties.")
        return
    assert der is not None, "a server has a certificate"
    yield Check(f"encryption {where}", "ok", str(version))
    info = describe_certificate(ssl.DER_cert_to_PEM_cert(der))
    yield _check_chain(host, port, security, info)
    yield _check_names(host, security, info)
    yield _check_expiry(info)


def _check_chain(host: str, port: int, security: Mapping[str, str], info: CertificateInfo) -> Check:
    authorities = _authorities(security)
    trusted = authorities or "the authorities of this machine"
    try:
        context = ssl.create_default_context(cafile=authorities)
        context.check_hostname = False
        _add_own_certificate(context, security)
        _wrap(context, host, port).close()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code not in (_EXPIRED, _NOT_YET_VALID):
            step = "Set ssl.ca.location (or ssl.truststore.location, PEM) to the authority that issued the certificate."
            found = f"{info.subject}, issued by {info.issuer}: {error.verify_message}, with {trusted}"
            return Check("certificate chain", "wrong", found, step)
    except OSError as error:
        return Check("certificate chain", "wrong", f"{trusted}: {error}", "Check the file of authorities.")
    return Check("certificate chain", "ok", f"{info.subject}, issued by {info.issuer}, verified with {trusted}")


def _check_names(host: str, security: Mapping[str, str], info: CertificateInfo) -> Check:
    names = ", ".join(info.hosts) or "no host"
    if any(_matches(name, host) for name in info.hosts):
        return Check("certificate names", "ok", names)
    step = f"Connect with one of these names, or issue a certificate that includes {host}."
    if security.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
        return Check("certificate names", "warning", f"for {names}, not for {host}; not verified", step)
    return Check("certificate names", "wrong", f"for {names}, not for {host}", step)


def _matches(name: str, host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    name, host = name.lower(), host.lower()
    first, _, rest = host.partition(".")
    return name == host or (bool(first) and bool(rest) and name == f"*.{rest}")


def _check_expiry(info: CertificateInfo) -> Check:
    now = datetime.datetime.now(datetime.UTC)
    step = "Renew the certificate. A running broker loads the new file."
    if info.not_before > now:
        found = f"valid only from {info.not_before:%Y-%m-%d %H:%M} UTC"
        return Check("certificate expiry", "wrong", found, "Check the clocks of this machine and of the issuer.")
    if info.not_after <= now:
        return Check("certificate expiry", "wrong", f"expired on {info.not_after:%Y-%m-%d %H:%M} UTC", step)
    soon = info.not_after - now < EXPIRES_SOON
    return Check("certificate expiry", "warning" if soon else "ok", f"valid until {info.not_after:%Y-%m-%d}",
                 step if soon else "")  # fmt: skip


def uses_sasl(security: Mapping[str, str]) -> bool:
    return _protocol(security).startswith("SASL_")


def _protocol(security: Mapping[str, str]) -> str:
    return security.get("security.protocol", "PLAINTEXT").upper()


def check_login(host: str, port: int, security: Mapping[str, str]) -> Check:
    """Check whether the listener uses SASL as the properties say, then the login."""
    protocol = _protocol(security)
    offered = _offered_mechanisms(host, port, security)
    if not protocol.startswith("SASL_"):
        if offered is None:
            return Check("login", "ok", "the listener does not use SASL")
        step = (
            f"Set security.protocol to SASL_{'SSL' if protocol == 'SSL' else 'PLAINTEXT'}, sasl.mechanism and a user."
        )
        return Check("login", "wrong", f"the listener requires SASL: {', '.join(offered)}", step)
    if offered is None:
        step = f"Set security.protocol to {protocol.removeprefix('SASL_')}, or use another port."
        return Check("login", "wrong", "the listener does not use SASL", step)
    mechanism = security.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in offered:
        step = "Set sasl.mechanism to one of them."
        return Check("login", "wrong", f"the listener offers {', '.join(offered)}, not {mechanism}", step)
    if mechanism not in PASSWORD_MECHANISMS:
        return Check("login", "ok", f"{mechanism} is offered; the login itself is checked below")
    try:
        open_secured_socket(host, port, security).close()
    except ActionError as error:
        return Check("login", "wrong", str(error), "Check the user and the password in the client properties.")
    return Check("login", "ok", mechanism)


def _offered_mechanisms(host: str, port: int, security: Mapping[str, str]) -> list[str] | None:
    """Ask for a mechanism that does not exist: a listener with SASL answers with those that it has."""
    uses_tls = _protocol(security).endswith("SSL")
    try:
        with _unverified(host, port, security) if uses_tls else open_socket(host, port) as sock:
            return _parse_mechanisms(_ask_for_mechanisms(sock))
    except (OSError, struct.error, _Refused):
        return None


def _ask_for_mechanisms(sock: socket.socket) -> bytes:
    """Send a SaslHandshake request; return the response, which is empty if the connection was closed."""
    name, mechanism = b"penstock-doctor", _NO_MECHANISM.encode()
    body = struct.pack(f">hhih{len(name)}sh{len(mechanism)}s", SASL_HANDSHAKE, 1, 1, len(name), name, 1, mechanism)
    try:
        sock.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _exactly(sock, 4))
        return _exactly(sock, min(size, _ANSWER_SIZE_MAX))
    except ssl.SSLError as error:
        raise _refusal(error) from None
    except EOFError:
        return b""


def _parse_mechanisms(answer: bytes) -> list[str] | None:
    _, error, count = struct.unpack_from(">ihi", answer)
    if error != _UNSUPPORTED_MECHANISM:
        return None
    found, position = [], 10
    for _ in range(min(count, 100)):
        (size,) = struct.unpack_from(">h", answer, position)
        found.append(answer[position + 2 : position + 2 + size].decode("utf-8", "replace"))
        position += 2 + size
    return sorted(found)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _unverified(host: str, port: int, security: Mapping[str, str]) -> ssl.SSLSocket:
    """Connect with TLS without verifying the broker. Raises _Refused, OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _add_own_certificate(context, security)
    try:
        return _wrap(context, host, port)
    except ssl.SSLError as error:
        raise _refusal(error) from None


def _refusal(error: ssl.SSLError) -> Exception:
    """Return the error of an alert that the broker sent, or the error itself."""
    return _Refused(str(error.reason).lower().replace("_", " ")) if "ALERT" in (error.reason or "") else error


def _wrap(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSocket:
    plain = open_socket(host, port)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _authorities(security: Mapping[str, str]) -> str | None:
    return security.get("ssl.ca.location") or security.get("ssl.truststore.location")


def _add_own_certificate(context: ssl.SSLContext, security: Mapping[str, str]) -> None:
    own = security.get("ssl.certificate.location") or security.get("ssl.keystore.location")
    if own:
        context.load_cert_chain(own, security.get("ssl.key.location"), lambda: security.get("ssl.key.password") or "")
