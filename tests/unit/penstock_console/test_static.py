"""The files of the pages: nothing that the Content-Security-Policy forbids, no other host, no missing module."""

import re
from pathlib import Path

import pytest

import penstock_console

STATIC = Path(penstock_console.__file__).parent / "static"
OWN = sorted(
    path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts
)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
UNSAFE = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerously")
ELSEWHERE = re.compile(r"https?://|//[a-z]+\.[a-z]", re.IGNORECASE)
IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")
IMPORTED_NAMES = re.compile(r"""import \{([^}]*)\} from "(\.[^"]+)";""")
EXPORT = re.compile(r"^export (?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
EXPORT_LIST = re.compile(r"export\s*\{([^}]*)\}")
LINES_MAX = 500


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_a_file_creates_no_html_from_text_and_names_no_other_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert UNSAFE.findall(text) == []
    assert ELSEWHERE.findall(text) == []
    assert len(text.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_imported_module_exists(path: Path) -> None:
    imported = IMPORT.findall(path.read_text(encoding="utf-8"))
    assert [each for each in imported if not (path.parent / each).is_file()] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_imported_name_is_exported(path: Path) -> None:
    missing = []
    for names, module in IMPORTED_NAMES.findall(path.read_text(encoding="utf-8")):
        text = (path.parent / module).read_text(encoding="utf-8")
        exported = set(EXPORT.findall(text)) | set(re.findall(r"\w+", " ".join(EXPORT_LIST.findall(text))))
        missing += [name for name in re.findall(r"\w+", names) if name not in exported]
    assert missing == []


def test_every_page_of_the_table_has_a_module() -> None:
    table = (STATIC / "lib" / "pages.js").read_text(encoding="utf-8")
    frame = (STATIC / "app.js").read_text(encoding="utf-8")
    names = set(re.findall(r'\], "(\w+)"\],', table)) | set(re.findall(r'module="(\w+)"', frame))
    assert names == {path.stem for path in (STATIC / "pages").iterdir()}


def test_the_start_page_has_no_inline_script_or_style() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)[^>]*>", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
