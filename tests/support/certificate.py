"""A self-signed certificate for the loopback address."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.ports import HOST


def make_certificate(folder: Path) -> Path:
    """Create a self-signed certificate with its key in one PEM file; skip the test if openssl is missing."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, alone, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
         "-addext", f"subjectAltName=IP:{HOST}", "-keyout", key, "-out", alone],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_text(key.read_text() + alone.read_text())
    return both
