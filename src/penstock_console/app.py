"""The application: the pages, their files and the API, behind the guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from penstock_console.api import Api
from penstock_console.console import Console
from penstock_console.errors import not_found
from penstock_console.guard import Guard
from penstock_console.json_content import respond
from penstock_console.settings import ConsoleSettings

STATIC: Final = Path(__file__).parent / "static"


def build_app(settings: ConsoleSettings) -> ASGIApp:
    console = Console(settings)

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
        return FileResponse(STATIC / "index.html")

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def missing(request: Request, error: Exception) -> Response:
        found = not_found("There is no such page.", hint="Begin at /.")
        return respond({"error": found.content()}, found.status)

    routes = [
        Route("/", home),
        Mount("/api", Api(console)),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/c/{path:path}", page),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: missing})
    app.router.redirect_slashes = False
    return Guard(app, settings, console.sessions)
