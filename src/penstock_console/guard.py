"""Every check that precedes routing, and the security headers of every response.

Rejects a foreign Host (DNS rebinding), methods other than GET, HEAD and POST, API requests from other sites, POSTs
without the session's token, bodies that are too large, and changes of a read-only cluster. Then calls the application.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock_console.errors import ApiError
from penstock_console.json_content import respond
from penstock_console.sessions import COOKIE, Session, Sessions
from penstock_console.settings import ConsoleSettings

TOKEN_HEADER: Final = "x-penstock-token"
BODY_SIZE_MAX: Final = 2 * 1024 * 1024
PRODUCE_SIZE_MAX: Final = 40 * 1024 * 1024
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::\d{1,5})?")


class Guard:
    """ASGI middleware in front of the application."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
        # Decoded, as the application will see it: an encoded letter must not get around a check.
        segments = [unquote(part, errors="replace") for part in raw.strip("/").split("/")]
        # The router splits the decoded path, so a %2F separates segments for it.
        is_api = unquote(raw).strip("/").split("/")[0] == "api"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_response_headers(message["headers"], is_api)]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        session = self._sessions.find(_cookie(headers))
        scope.setdefault("state", {})["session"] = session
        is_record = segments[3:] == ["changes", "records.produce", "plan"]
        body = _Body(receive, PRODUCE_SIZE_MAX if is_record else BODY_SIZE_MAX)
        try:
            self._check(scope["method"], segments, headers, session, is_api=is_api)
            body.check_declared(headers)
            await self._app(scope, body.receive, send_with_headers)
        except ApiError as error:
            response = respond({"error": error.content()}, error.status)
            await response(scope, receive, send_with_headers)

    def _check(
        self, method: str, segments: Sequence[str], headers: Mapping[str, str], session: Session | None, *, is_api: bool
    ) -> None:
        self._check_host(headers.get("host", ""))
        if method not in ("GET", "HEAD", "POST"):
            raise ApiError(405, "METHOD_NOT_ALLOWED", f"Method {method} is not supported: use GET or POST.")
        if is_api:
            _check_origin(method, headers)
        if method != "POST":
            return
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "INVALID_REQUEST", "The content type of a POST must be application/json.")
        if not self._sessions.is_token(session, headers.get(TOKEN_HEADER, "")):
            raise ApiError(
                403, "INVALID_TOKEN", "The header X-Penstock-Token is missing or out of date.", "Reload the page."
            )
        self._check_read_only(segments)

    def _check_host(self, host: str) -> None:
        found = _HOST.fullmatch(host)
        name = found[1].lower() if found else ""
        if name in ("localhost", *(each.lower() for each in self._settings.host_names)):
            return
        try:
            # An address cannot be the name of another site, so no other site's script can send it.
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            raise ApiError(
                421,
                "UNKNOWN_HOST",
                f"The console is not known as '{name[:100]}'.",
                "Use its IP address, or start it with --host-name NAME.",
            ) from None

    def _check_read_only(self, segments: Sequence[str]) -> None:
        is_change = segments[:2] == ["api", "c"] and segments[3:4] == ["changes"]
        cluster = self._settings.clusters.get(segments[2]) if is_change else None
        if cluster is not None and (reason := self._settings.policy(cluster).read_only_reason):
            raise ApiError(403, "READ_ONLY", f"Nothing can be changed here. {reason}")


class _Body:
    """The body of a request, which is rejected while it arrives if it gets too large."""

    def __init__(self, receive: Receive, size_max: int) -> None:
        self._receive = receive
        self._size_max = size_max
        self._size = 0

    def check_declared(self, headers: Mapping[str, str]) -> None:
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > self._size_max:
            raise self._too_large()

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > self._size_max:
            raise self._too_large()
        return message

    def _too_large(self) -> ApiError:
        return ApiError(413, "TOO_LARGE", f"The body is larger than {self._size_max // (1024 * 1024)} MiB.")


def _check_origin(method: str, headers: Mapping[str, str]) -> None:
    site = headers.get("sec-fetch-site", "same-origin")
    # "none" is an address that the user typed or opened from a bookmark.
    is_foreign = site not in (("same-origin", "none") if method != "POST" else ("same-origin",))
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        is_foreign = True
    if is_foreign:
        raise ApiError(403, "FORBIDDEN_ORIGIN", "The request was sent by a page of another site.")


def _cookie(headers: Mapping[str, str]) -> str | None:
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return None


def _response_headers(given: Iterable[tuple[bytes, bytes]], is_api: bool) -> list[tuple[bytes, bytes]]:
    is_kept = not is_api and any(name == b"cache-control" for name, _ in given)
    caching = {} if is_kept else {"cache-control": "no-store" if is_api else "no-cache"}
    return [(name.encode(), value.encode()) for name, value in {**HEADERS, **caching}.items()]
