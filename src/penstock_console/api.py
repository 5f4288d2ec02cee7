"""The ASGI application under `/api`: finds the endpoint, calls it and turns errors into JSON."""

import asyncio
import logging
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock import __version__
from penstock_console.console import Console
from penstock_console.endpoints import Call, Match, match, split_path
from penstock_console.errors import ApiError, api_error, not_found
from penstock_console.json_content import parse_object, respond
from penstock_console.parameters import Arguments, parse_query
from penstock_console.routes import ENDPOINTS
from penstock_console.sessions import COOKIE, Session

logger = logging.getLogger(__name__)

PASSWORD_SIZE_MAX: Final = 1000
FAILED_LOGIN_S: Final = 1.0
PAGE_S_MAX: Final = 90.0
"""A page that takes longer is reported; some read a sample of a topic."""


class Api:
    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except Exception as error:
            found = api_error(error)
            if found is None:
                logger.exception("%s %s failed", request.method, request.url.path)
                reason = f"The console failed: {type(error).__name__}. Its log has the details."
                found = ApiError(500, "INTERNAL_ERROR", reason)
            response = respond({"error": found.content()}, found.status)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        raw: bytes = request.scope["raw_path"]
        first, *segments = split_path(raw.decode("latin-1").partition("?")[0])
        if first != "api":
            # An encoded slash, which separates segments for the router but not here.
            raise not_found("There is no such route.", hint="See /api/openapi.json.")
        session: Session | None = request.scope["state"]["session"]
        method = "GET" if request.method == "HEAD" else request.method
        match method, segments:
            case "GET", ["session"]:
                return respond(self._describe_session(session))
            case "GET", ["openapi.json"]:
                from penstock_console.openapi import describe

                return respond(describe(ENDPOINTS))
            case "POST", ["login"]:
                return await self._log_in(request, session)
            case "POST", ["logout"]:
                return self._log_out(session)
            case _, ["c", name, *rest]:
                access = self._console.find(name, session)
                found = match_endpoint(method, rest)
                return await self._call(request, access, found)
        raise not_found("There is no such route.", hint="See /api/openapi.json.")

    async def _call(self, request: Request, access: Any, found: Match) -> Response:
        endpoint = found.endpoint
        if endpoint.contents and not access.policy.contents:
            raise ApiError(
                403,
                "CONTENTS_HIDDEN",
                "The contents of records are hidden, because the console can be reached without a login.",
                "Start it with --allow contents, or on 127.0.0.1.",
            )
        given = {name: request.query_params.getlist(name) for name in request.query_params}
        query = parse_query(endpoint.parameters, given)
        body = parse_object(await request.body()) if endpoint.method == "POST" else {}
        call = Call(access, self._console, found.path, query, body, user=access.user, address=_address(request))
        if endpoint.serve is not None:
            return await endpoint.serve(call, request)
        read = endpoint.read
        assert read is not None, "an endpoint reads or serves"
        try:
            async with asyncio.timeout(PAGE_S_MAX if endpoint.method == "GET" else None):
                if not endpoint.is_slow:
                    return await self._console.run(lambda: respond(read(call)))
                async with self._console.limits.read():
                    # Encoded in the thread, too, because a page may be large.
                    return await self._console.run(lambda: respond(read(call)))
        except TimeoutError:
            raise ApiError(
                504, "REQUEST_TIMED_OUT", f"The cluster did not answer within {PAGE_S_MAX:g} s.", "Try again."
            ) from None

    def _describe_session(self, session: Session | None) -> dict[str, Any]:
        clusters = []
        for name, cluster in self._console.settings.clusters.items():
            policy = self._console.settings.policy(cluster)
            access = session.access.get(name) if session is not None else None
            clusters.append(
                {
                    "name": name,
                    "bootstrap": cluster.connection.bootstrap,
                    "login": "none" if not cluster.requires_login else "required" if access is None else "done",
                    "user": access.user if access is not None else None,
                    "read_only": policy.read_only_reason is not None,
                    "read_only_reason": policy.read_only_reason,
                    "contents": policy.contents,
                }
            )
        return {"version": __version__, "token": self._console.sessions.token(session), "clusters": clusters}

    async def _log_in(self, request: Request, session: Session | None) -> Response:
        arguments = Arguments(parse_object(await request.body()), ("cluster", "user", "password"))
        name, user, password = (arguments.text(each) for each in ("cluster", "user", "password"))
        if len(password) > PASSWORD_SIZE_MAX or len(user) > PASSWORD_SIZE_MAX:
            raise ApiError(400, "INVALID_REQUEST", f"User and password have at most {PASSWORD_SIZE_MAX} characters.")
        try:
            made = await self._console.log_in(session, name, user, password)
        except ApiError:
            # Slows down attempts to guess a password.
            await asyncio.sleep(FAILED_LOGIN_S)
            raise
        response = respond(self._describe_session(made))
        response.set_cookie(
            COOKIE, made.key, path="/", httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return response

    def _log_out(self, session: Session | None) -> Response:
        if session is not None:
            self._console.sessions.remove(session)
        response = respond(self._describe_session(None))
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def match_endpoint(method: str, segments: list[str]) -> Match:
    found = match(ENDPOINTS, method, segments)
    if found is not None:
        return found
    other = "GET" if method == "POST" else "POST"
    if match(ENDPOINTS, other, segments) is not None:
        raise ApiError(405, "METHOD_NOT_ALLOWED", f"This route supports {other} only.")
    raise not_found("There is no such route.", hint="See /api/openapi.json.")


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""
