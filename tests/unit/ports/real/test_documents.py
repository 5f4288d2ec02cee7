"""Documents are read from files and web servers; what is no document is an OSError that names the URL."""

from pathlib import Path

import pytest

from penstock.ports.real.documents import SIZE_MAX, RealDocuments


async def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "the keys é.json"
    path.write_bytes(b"content")
    assert await RealDocuments().read(path.as_uri()) == b"content"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/keys.json", "is not a URL of the schemes file, http, https"),
        ("keys.json", "is not a URL of the schemes file, http, https"),
        ("http://127.0.0.1:1/keys.json", r"cannot read http://127\.0\.0\.1:1/keys\.json: .*refused"),
        ("file:///no/such/file", "No such file"),
    ],
)
async def test_a_url_that_cannot_be_read_is_reported(url: str, why: str) -> None:
    with pytest.raises(OSError, match=why):
        await RealDocuments().read(url)


async def test_a_document_that_is_too_large_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(bytes(SIZE_MAX + 1))
    with pytest.raises(OSError, match=f"is larger than {SIZE_MAX} bytes"):
        await RealDocuments().read(path.as_uri())
