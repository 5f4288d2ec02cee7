"""The files of the pages, from memory.

A browser asks for two dozen small files on its first visit, so none of them waits for a thread. The page names all of
them, also those that scripts import, and the data that it shows: a browser requests them together, not one after the
other. The address of a file contains the version of all files: browsers keep a file until any of them changes, and
later visits ask for none. Files that are changed while the console runs are read again.
"""

import hashlib
import mimetypes
import posixpath
import re
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

FOLDER: Final = Path(__file__).parent / "static"
PREFIX: Final = "/static/"
KEPT: Final = {"cache-control": "max-age=31536000, immutable"}
_INDEX: Final = "index.html"
_APP: Final = "app.js"
_IMPORT: Final = re.compile(r'^import [^;]*"(\.[^"]+)";', re.MULTILINE)

Stamps = dict[Path, tuple[int, int]]


class _Files(NamedTuple):
    stamps: Stamps
    version: str
    contents: dict[str, bytes]
    imports: dict[str, list[str]]
    """The modules that a script imports; those that it loads later are not among them."""


class StaticFiles:
    """The ASGI application under /static/, and the page that loads its files."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files = self._read(self._stamps())

    def page(self, module: str | None = None, data: str | None = None) -> Response:
        """Return the page that loads all others, with links to the scripts of one of them and to its data."""
        stamps = self._stamps()
        if stamps != self._files.stamps:
            self._files = self._read(stamps)
        files = self._files
        scripts = [_APP, *([f"pages/{module}.js"] if f"pages/{module}.js" in files.contents else [])]
        links = [f'<link rel="modulepreload" href="{PREFIX}{each}">' for each in _with_imports(files, scripts)]
        if data is not None:
            links.insert(0, f'<link rel="preload" as="fetch" href="{escape(data)}" crossorigin>')
        page = files.contents[_INDEX].decode().replace("</head>", "\n".join([*links, "</head>"]))
        return Response(page.replace(f'"{PREFIX}', f'"{PREFIX}{files.version}/'), media_type="text/html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        files = self._files
        name = scope["path"].removeprefix(PREFIX)
        version, _, rest = name.partition("/")
        is_current = version == files.version
        # A page that was loaded before an update asks for another version, and gets the current file.
        content = files.contents.get(name) or files.contents.get(rest)
        if content is None:
            raise HTTPException(404)
        kind = mimetypes.guess_type(name)[0] or "text/plain"
        response = Response(content, media_type=kind, headers=KEPT if is_current else None)
        await response(scope, receive, send)

    def _stamps(self) -> Stamps:
        """Return the time and the size of each file."""
        found = {}
        for path in sorted(self._folder.rglob("*")):
            if path.is_file():
                state = path.stat()
                found[path] = (state.st_mtime_ns, state.st_size)
        return found

    def _read(self, stamps: Stamps) -> _Files:
        contents = {path.relative_to(self._folder).as_posix(): path.read_bytes() for path in stamps}
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        imports = {name: _imports(name, content) for name, content in contents.items() if name.endswith(".js")}
        return _Files(stamps, digest.hexdigest()[:12], contents, imports)


def _imports(name: str, content: bytes) -> list[str]:
    folder = posixpath.dirname(name)
    return [posixpath.normpath(posixpath.join(folder, each)) for each in _IMPORT.findall(content.decode())]


def _with_imports(files: _Files, scripts: list[str]) -> list[str]:
    """Return scripts and all that they import, directly or not."""
    found = dict.fromkeys(scripts)
    waiting = list(scripts)
    while waiting:
        for each in files.imports.get(waiting.pop(), []):
            if each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)
