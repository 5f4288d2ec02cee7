"""Key stores and trust stores of a running node, loaded in a child process.

`cryptography` keeps Python's interpreter lock while it derives the key of a PKCS#12 store, which takes 10 ms to a
second, so in a thread it would stop the event loop as well. `load_in_child` blocks its thread, not the loop. Secrets
pass through pipes only. Raises TlsError.
"""

import hmac
import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from penstock.ports.network import TlsError, TlsSettings, TlsStore
from penstock.ports.real.stores import KeyPair, Stores, load_stores

SECONDS_MAX: Final = 60.0


class Identity(NamedTuple):
    """The names in a certificate."""

    subject: str
    hosts: frozenset[str]


class Reloaded(NamedTuple):
    stores: Stores
    before: Identity | None
    """The names in the certificate that is in use."""
    after: Identity | None
    """The names in the loaded certificate; both are None if it is the same key and certificate."""


def load_in_child(settings: TlsSettings, in_use: KeyPair | None = None) -> Reloaded:
    """Load the stores of the settings, and the names in their certificate and in the one in use."""
    request = {
        "key_store": None if settings.key_store is None else asdict(settings.key_store),
        "trust_store": None if settings.trust_store is None else asdict(settings.trust_store),
        "in_use": None if in_use is None else in_use.pem.decode("ascii", "replace"),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name],
            input=json.dumps(request).encode(), capture_output=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise TlsError(f"the process that loads certificates failed: {type(error).__name__}") from None
    if "error" in answer:
        raise TlsError(answer["error"])
    key = None if answer["key"] is None else KeyPair(answer["key"].encode(), answer["key_password"])
    return Reloaded(Stores(key, answer["authorities"]), *(_identity(answer[name]) for name in ("before", "after")))


def _identity(found: Any) -> Identity | None:
    return None if found is None else Identity(found[0], frozenset(found[1]))


# In the child


def names_in(pem: bytes) -> tuple[str, list[str]]:
    """Return the subject and the alternative names of the first certificate."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
    except ValueError:
        raise TlsError("the key store contains no certificate") from None
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [str(name.value) for name in names]
    except x509.ExtensionNotFound:
        hosts = []
    return certificate.subject.rfc4514_string(), hosts


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    key_store, trust_store = (
        None if request[name] is None else TlsStore(**request[name]) for name in ("key_store", "trust_store")
    )
    try:
        key, authorities = load_stores(TlsSettings(key_store=key_store, trust_store=trust_store))
        in_use = None if request["in_use"] is None else request["in_use"].encode()
        is_other = key is not None and in_use is not None and not hmac.compare_digest(key.pem, in_use)
        return {
            "key": None if key is None else key.pem.decode("ascii", "replace"),
            "key_password": None if key is None else key.password,
            "authorities": authorities,
            "before": names_in(in_use) if is_other and in_use is not None else None,
            "after": names_in(key.pem) if is_other and key is not None else None,
        }
    except TlsError as problem:
        return {"error": str(problem)}


def main() -> None:
    json.dump(_answer(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
