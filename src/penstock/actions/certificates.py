"""Certificates for secured clusters: an authority, and the certificates that it signs.

Keys are on the curve P-256: their handshakes cost a third of RSA's. Everything is PEM. `cryptography` is imported by
the commands that create certificates only.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 825
_CLOCK_SKEW: Final = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SignedKey:
    """A private key and its certificate, as PEM texts."""

    key: str = field(repr=False)
    certificate: str


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    subject: str
    issuer: str
    hosts: tuple[str, ...]
    not_before: datetime.datetime
    not_after: datetime.datetime


def create_authority(name: str, *, now: datetime.datetime) -> SignedKey:
    from cryptography import x509

    key = _new_key()
    subject = _name(name)
    builder = (
        _builder(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue_certificate(
    authority: SignedKey,
    name: str,
    *,
    hosts: Sequence[str] = (),
    now: datetime.datetime,
    days: int = CERTIFICATE_DAYS,
) -> SignedKey:
    """Issue a certificate for a node, which is a server and a client of other nodes."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer = cast("ec.EllipticCurvePrivateKey", serialization.load_pem_private_key(authority.key.encode(), None))
    parent = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = _new_key()
    builder = (
        _builder(_name(name), parent.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)]), critical=False
        )
    return _signed(builder, key, signer)


def describe_certificate(pem: str) -> CertificateInfo:
    """Return what the first certificate of a PEM text says."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificates(pem.encode())[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    return CertificateInfo(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        tuple(str(name.value) for name in names),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _new_key() -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: "x509.Name",
    issuer: "x509.Name",
    public: "ec.EllipticCurvePublicKey",
    now: datetime.datetime,
    days: int,
) -> "x509.CertificateBuilder":
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey", signer: "ec.EllipticCurvePrivateKey"
) -> SignedKey:
    from cryptography.hazmat.primitives import hashes, serialization

    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = builder.sign(signer, hashes.SHA256())
    return SignedKey(encoded.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode())
