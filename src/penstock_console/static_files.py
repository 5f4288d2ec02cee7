"""The files of the pages, from memory.

A browser asks for two dozen small files on its first visit, so none of them waits for a thread. The address of a file
contains the version of all files: browsers keep a file until any of them changes, and later visits ask for none.
Files that are changed while the console runs are read again.
"""

import hashlib
import mimetypes
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
_PRELOAD: Final = '<link rel="preload" as="fetch" href="{}" crossorigin>'
_SESSION: Final = _PRELOAD.format("/api/session")

Stamps = dict[Path, tuple[int, int]]


class _Files(NamedTuple):
    stamps: Stamps
    version: str
    contents: dict[str, bytes]


class StaticFiles:
    """The ASGI application under /static/, and the page that loads its files."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files = self._read(self._stamps())

    def page(self, data: str | None = None) -> Response:
        """Return the page that loads all others; browsers request `data` with its first files, not after them."""
        stamps = self._stamps()
        if stamps != self._files.stamps:
            self._files = self._read(stamps)
        files = self._files
        page = files.contents[_INDEX].decode().replace(f'"{PREFIX}', f'"{PREFIX}{files.version}/')
        if data is not None:
            page = page.replace(_SESSION, f"{_SESSION}\n{_PRELOAD.format(escape(data))}", 1)
        return Response(page, media_type="text/html")

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
        return _Files(stamps, digest.hexdigest()[:12], contents)
