"""The application: the pages, their files and the API, behind the guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from penstock_console.api import Api
from penstock_console.console import Console
from penstock_console.errors import not_found
from penstock_console.guard import Guard
from penstock_console.json_content import respond
from penstock_console.settings import ConsoleSettings
from penstock_console.static_files import StaticFiles

_MIRRORED: Final = {"": "overview", "topics": "topics"}
"""Pages with the data that they show first. The largest ones: others gain little."""


def build_app(settings: ConsoleSettings) -> ASGIApp:
    console = Console(settings)
    files = StaticFiles()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        console.start()
        try:
            yield
        finally:
            await console.close()

    async def home(request: Request) -> Response:
        if len(settings.clusters) == 1:
            (name,) = settings.clusters
            return RedirectResponse(f"/c/{quote(name, safe='')}/", status_code=302)
        return files.page()

    async def page(request: Request) -> Response:
        cluster, _, rest = request.path_params["path"].partition("/")
        # The address of a page below another one, such as that of a topic, does not name its module.
        return files.page(rest.replace("-", "_") or "overview", _data_address(cluster, rest, request.url.query))

    async def missing(request: Request, error: Exception) -> Response:
        found = not_found("There is no such page.", hint="Begin at /.")
        return respond({"error": found.content()}, found.status)

    routes = [
        Route("/", home),
        Mount("/api", Api(console)),
        Mount("/static", files),
        Route("/c/{path:path}", page),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: missing})
    app.router.redirect_slashes = False
    return Guard(app, settings, console.sessions)


def _data_address(cluster: str, rest: str, query: str) -> str | None:
    """Return the address of the data that a page shows, if both addresses have the same form."""
    if rest not in _MIRRORED:
        return None
    return f"/api/c/{quote(cluster, safe='')}/{_MIRRORED[rest]}" + (f"?{query}" if query and rest else "")
