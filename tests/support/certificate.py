"""A certificate for this machine's loopback address, signed by itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.ports import HOST


def make_certificate(folder: Path) -> Path:
    """One self-signed certificate and its key, in one PEM file; skips the test where openssl is not there."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not there to make a certificate")
    key, alone, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
         "-addext", f"subjectAltName=IP:{HOST}", "-keyout", key, "-out", alone],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_text(key.read_text() + alone.read_text())
    return both
