"""The files of other projects are those that were reviewed, and the pages load nothing from elsewhere."""

import hashlib
import re

from penstock_console.static_files import FOLDER as STATIC

HASHES = {
    "htm-preact.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    "uplot.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE.htm": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
    "LICENSE.preact": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "LICENSE.uplot": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def test_vendored_files_are_unmodified() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").iterdir()}
    assert found == HASHES


def test_the_pages_name_no_other_host() -> None:
    for path in (each for each in STATIC.iterdir() if each.suffix in (".html", ".js", ".css")):
        for address in re.findall(r"https?://[^\s\"'`<>)]+", path.read_text(encoding="utf-8")):
            assert address.startswith("http://www.w3.org/"), f"{path.name} names {address}"


def test_there_is_no_inline_script_or_style() -> None:
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"<style|\bstyle=|\bon\w+=|javascript:", text)
