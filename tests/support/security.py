"""Certificates, key stores and listeners for tests with TLS and SASL."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tests.support.ports import HOST


class Certificates:
    """An authority with a certificate for the test's broker and one for a client; and an authority nobody trusts."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("cryptography")
        from penstock.actions.certificates import create_authority

        self.folder = folder
        self.now = datetime.datetime.now(datetime.UTC)
        self._authority = create_authority("Test CA", now=self.now)
        self._stranger = create_authority("Strange CA", now=self.now)
        self.authority = self.write("ca.pem", self._authority.certificate)
        self.broker = self.issue("broker", hosts=[HOST, "localhost"])
        self.client = self.issue("client")
        self.stranger = self.issue("stranger", by_stranger=True)

    def issue(
        self,
        name: str,
        *,
        file: str | None = None,
        hosts: list[str] | None = None,
        days: int = 2,
        now: datetime.datetime | None = None,
        by_stranger: bool = False,
    ) -> Path:
        """Issue a certificate; return a PEM file with its key and itself."""
        from penstock.actions.certificates import issue_certificate

        authority = self._stranger if by_stranger else self._authority
        issued = issue_certificate(authority, name, hosts=hosts or (), days=days, now=now or self.now)
        return self.write(file or f"{name}.pem", issued.key + issued.certificate)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def broker_options(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }


def jaas(**users: str) -> str:
    """Return a sasl.jaas.config with users of PLAIN."""
    listed = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {listed};"


def first_user(name: str, password: str) -> str:
    """Return a bootstrap.scram.credentials with one user."""
    from penstock.security.bootstrap import make_first_users, render_first_users

    return render_first_users(make_first_users(name, password, [b"a" * 24, b"b" * 24]))
