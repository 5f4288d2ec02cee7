"""The pages of the documentation, with their fenced blocks and commands.

An HTML comment before a block contains instructions for the tests:

- `<!-- not run: REASON -->`: the block is only checked statically.
- `<!-- fragment -->`: a chain of method calls without its beginning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("*.md", "docs/**/*.md", "client/README.md", "tests/README.md", "examples/README.md", "examples/*/*/README.md")
GENERATED = ("docs/configuration.md", "docs/metrics.md")
LANGUAGES = frozenset({"console", "python", "sql", "text", "mermaid", "yaml", "json", "properties"})
MARKS = frozenset({"not run", "fragment"})

_MARK = re.compile(r"\s*<!-- ([a-z ]+?)(?:: (.+?))? -->\s*")
_FENCE = re.compile(r"(\s*)```(\w*)\s*")


@dataclass(frozen=True, slots=True)
class Command:
    """A line after `$`, and the output shown below it."""

    text: str
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    language: str
    lines: tuple[str, ...]
    marks: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def commands(self) -> list[Command]:
        found: list[tuple[str, list[str]]] = []
        continued = False
        for line in self.lines:
            if continued:
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            elif line.startswith("$ "):
                found.append((line[2:], []))
            else:
                assert found, f"{self}: a console block starts with a command after '$ '"
                found[-1][1].append(line)
            continued = line.endswith("\\")
        return [Command(text, tuple(output)) for text, output in found]

    @property
    def commands_if_console(self) -> list[Command]:
        return self.commands if self.language == "console" else []


def pages() -> list[str]:
    """Return the main pages: README and its neighbours, docs/, and the READMEs of directories."""
    found = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def written_pages() -> list[str]:
    return [page for page in pages() if page not in GENERATED]


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text()


@cache
def blocks(page: str) -> tuple[Block, ...]:
    found: list[Block] = []
    marks: dict[str, str] = {}
    lines = iter(enumerate(text_of(page).splitlines(), start=1))
    for number, line in lines:
        fence = _FENCE.fullmatch(line)
        if mark := _MARK.fullmatch(line):
            marks[mark[1]] = mark[2] or ""
        elif fence:
            indent = len(fence[1])
            content = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                content.append(inner[indent:])
            found.append(Block(page, number, fence[2], tuple(content), marks))
            marks = {}
        elif line.strip():
            marks = {}
    return tuple(found)


@cache
def prose(page: str) -> str:
    """Return the page without its fenced blocks."""
    out: list[str] = []
    inside = False
    for line in text_of(page).splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            out.append(line)
    return "\n".join(out)


def inline_code(page: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors(page: str) -> set[str]:
    """Return the anchors of the page's headings, as GitHub and MkDocs generate them."""
    headings = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
