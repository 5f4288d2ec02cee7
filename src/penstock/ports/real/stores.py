"""Key stores and trust stores: PEM files and texts, and PKCS#12, which Java's keytool writes.

The format is that of the content, whatever the file is called: keytool writes PKCS#12 into `.jks` files too. Java's own
format is rejected with the command that converts it. `cryptography` is imported for PKCS#12 only. Raises TlsError.
"""

import ssl
from typing import Final, NamedTuple

from penstock.ports.network import TlsError, TlsSettings, TlsStore

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = 0x30


class KeyPair(NamedTuple):
    """A private key and its certificates, as PEM."""

    pem: bytes
    password: str | None

    def __repr__(self) -> str:
        return "KeyPair([hidden])"


class Stores(NamedTuple):
    """The content of a key store and of a trust store."""

    key: KeyPair | None
    authorities: str | None


def load_stores(settings: TlsSettings) -> Stores:
    """Load both stores, if the settings have them. A PKCS#12 store blocks the interpreter for 10 ms or longer."""
    return Stores(
        None if settings.key_store is None else load_key(settings.key_store),
        None if settings.trust_store is None else load_authorities(settings.trust_store),
    )


def is_quick_to_load(settings: TlsSettings) -> bool:
    """Return whether all stores are PEM, which OpenSSL loads without `cryptography`."""
    locations = [store.location for store in (settings.key_store, settings.trust_store) if store is not None]
    return all(_is_pem(_read(path), path) for path in locations if path is not None)


def load_key(store: TlsStore) -> KeyPair:
    """Return the private key and the certificate chain of a key store."""
    if store.location is None:
        return KeyPair(f"{store.key}\n{store.certificates}\n".encode(), store.key_password)
    data = _read(store.location)
    if _is_pem(data, store.location):
        return KeyPair(data, store.key_password)
    key, certificate, chain = _load_pkcs12(data, store)
    if key is None or certificate is None:
        raise TlsError(f"{store.location} contains no private key with a certificate")
    from cryptography.hazmat.primitives import serialization

    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    encoded = [each.public_bytes(serialization.Encoding.PEM) for each in (certificate, *chain)]
    return KeyPair(b"".join((pem, *encoded)), None)


def first_certificate(pair: KeyPair) -> bytes:
    """Return the certificate of the key, as DER bytes."""
    _, begin, rest = pair.pem.decode("ascii", "replace").partition("-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition("-----END CERTIFICATE-----")
    if not end:
        raise TlsError("the key store contains no certificate")
    return ssl.PEM_cert_to_DER_cert(f"{begin}{body}{end}\n")


def load_authorities(store: TlsStore) -> str:
    """Return the trusted certificates of a trust store as PEM."""
    if store.location is None:
        return str(store.certificates)
    data = _read(store.location)
    if _is_pem(data, store.location):
        return data.decode("ascii", "replace")
    _, certificate, chain = _load_pkcs12(data, store)
    from cryptography.hazmat.primitives import serialization

    found = [each for each in (certificate, *chain) if each is not None]
    if not found:
        raise TlsError(f"{store.location} contains no certificate")
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in found).decode()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise TlsError(f"Cannot read {path}: {error.strerror}") from None


def _is_pem(data: bytes, path: str) -> bool:
    if data[:4] in _JKS:
        raise TlsError(
            f"{path} has Java's JKS format, which Penstock does not read. Convert it: keytool -importkeystore "
            f"-srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        )
    if _PEM in data:
        return True
    if data[:1] and data[0] == _DER_SEQUENCE:
        return False
    raise TlsError(f"{path} is neither a PEM file nor a PKCS12 store")


def _load_pkcs12(data: bytes, store: TlsStore):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.serialization import pkcs12

    password = None if store.password is None else store.password.encode()
    try:
        loaded = pkcs12.load_pkcs12(data, password)
    except (ValueError, TypeError):
        raise TlsError(f"Cannot open {store.location}: it is not a PKCS12 store, or its password is wrong") from None
    certificate = None if loaded.cert is None else loaded.cert.certificate
    return loaded.key, certificate, [each.certificate for each in loaded.additional_certs]
