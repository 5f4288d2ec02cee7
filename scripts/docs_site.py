"""Build the documentation site into site/: gather the pages, fetch Mermaid once, run MkDocs.

The pages stay where readers of the repository expect them, so they link to files outside docs/. This script copies
every page, and every file that a page links to, into .cache/docs-site/pages with the same relative paths. Files that
are not Markdown become pages that show their source. The site can be viewed and rebuilt without a network.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
STAGED = ROOT / ".cache" / "docs-site" / "pages"
DOWNLOADS = ROOT / ".cache" / "docs-site"
PAGES = ("*.md", "docs/**/*.md", "client/README.md", "tests/README.md", "examples/README.md", "examples/*/*/README.md")
MERMAID = "11.17.2"
MERMAID_SHA512 = "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
CSS = """
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .66rem; }
.md-typeset pre.mermaid { text-align: center; }
"""
LANGUAGES = {".py": "python", ".yml": "yaml", ".json": "json", ".sql": "sql", ".service": "ini"}
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
_ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def main() -> int:
    shutil.rmtree(STAGED, ignore_errors=True)
    waiting = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/README.md"),
        ROOT / "tests/README.md",
    ]
    seen = set(waiting)
    while waiting:
        for target in stage(waiting.pop()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    assets = STAGED / "assets"
    assets.mkdir(parents=True)
    (assets / "site.css").write_text(CSS)
    shutil.copy(mermaid(), assets / "mermaid.min.js")
    return subprocess.call(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


def stage(path: Path) -> list[Path]:
    """Copy a file, and return the files that it links to."""
    relative = path.relative_to(ROOT)
    if path.suffix in (".png", ".svg"):
        _write(relative, path.read_bytes())
        return []
    if path.suffix != ".md":
        source = f"# {relative}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n````\n"
        _write(relative.with_name(f"{relative.name}.md"), source.encode())
        return []
    targets: list[Path] = []

    def relink(match: re.Match[str]) -> str:
        # Not resolved: a page that is linked into a second folder stays there.
        target = Path(os.path.normpath(path.parent / match[1]))
        if target.is_file():
            targets.append(target)
        shown = match[1] if target.suffix in (".md", ".png", ".svg") else f"{match[1]}.md"
        return shown + (match[2] or "")

    _write(relative, _LINK.sub(relink, as_python_markdown(path.read_text())).encode())
    return targets


def as_python_markdown(text: str) -> str:
    """Add what Python-Markdown needs and GitHub does not: blank lines before lists and tables, four spaces in items."""
    out: list[str] = []
    in_fence = in_list = False
    for line in text.splitlines():
        before = out[-1].strip() if out else ""
        is_item = _ITEM.match(line) is not None
        if not in_fence:
            is_table = line.lstrip().startswith("|") and not before.startswith("|")
            ends_fence = is_item and before == "```"
            if before and (is_table or ends_fence or (not in_list and (is_item or _is_fence(line)))):
                out.append("")
            # An item goes on until text that is not indented follows a blank line.
            goes_on = in_list and (not line.strip() or line.startswith("  ") or bool(before))
            in_list = is_item or (goes_on and not line.startswith("#"))
        out.append(re.sub(r"^ {2,3}(?=\S)", "    ", line) if in_list else line)
        if _is_fence(line):
            in_fence = not in_fence
    return "\n".join(out) + "\n"


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")


def _write(relative: Path, content: bytes) -> None:
    target = STAGED / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def mermaid() -> Path:
    """Return the JavaScript of Mermaid, from its npm package."""
    found = DOWNLOADS / f"mermaid-{MERMAID}.min.js"
    if not found.exists():
        if shutil.which("npm") is None:
            raise SystemExit("The documentation site needs Mermaid from its npm package: install Node.js and npm.")
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        pack = ["npm", "pack", "--silent", f"mermaid@{MERMAID}"]
        subprocess.check_call(pack, cwd=DOWNLOADS, stdout=subprocess.DEVNULL)
        package = DOWNLOADS / f"mermaid-{MERMAID}.tgz"
        digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if digest != MERMAID_SHA512:
            raise SystemExit(f"{package} is not the package that was expected: its SHA-512 is {digest}.")
        with tarfile.open(package) as archive:
            file = archive.extractfile("package/dist/mermaid.min.js")
            assert file is not None, "the package has the file"
            found.write_bytes(file.read())
        package.unlink()
    return found


if __name__ == "__main__":
    sys.exit(main())
