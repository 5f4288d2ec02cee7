"""The web console in tests: requests to its application without a socket, and a server with an HTTP client."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote, urlencode

import uvicorn
from starlette.types import ASGIApp, Message

from penstock.actions.connection import Connection
from penstock_console.app import build_app
from penstock_console.serve import listen
from penstock_console.settings import ClusterSettings, ConsoleSettings

TOKEN = "X-Penstock-Token"
NOWHERE = "127.0.0.1:1"
"""An address that refuses connections."""


def settings_for(bootstrap: str = NOWHERE, *, login: bool = False, **more: Any) -> ConsoleSettings:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"} if login else {}
    cluster = ClusterSettings(name="local", connection=Connection(bootstrap, properties), requires_login=login)
    return ConsoleSettings(clusters={"local": cluster}, port=0, **more)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Return the code of an error."""
        return str(self.json["error"]["code"])


async def request(
    app: ASGIApp,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    host: str = "localhost",
) -> Answer:
    """Send a request to an application without a socket."""
    raw, _, query = path.partition("?")
    given = {"host": host, **{name.lower(): value for name, value in (headers or {}).items()}}
    if body:
        given.setdefault("content-length", str(len(body)))
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(raw, errors="replace"),
        "raw_path": raw.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 12345),
        "root_path": "",
    }
    sent: list[Message] = []
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return pieces.pop(0) if pieces else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, content)


@dataclass
class Browser:
    """An HTTP client that keeps the cookie and the token of a session, as a page does."""

    port: int
    cookie: str = ""
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **query: str | int) -> Answer:
        return self.send("GET", path + ("?" + urlencode(query) if query else ""))

    def read(self, path: str, **query: str | int) -> Any:
        """Return the data of a page of the cluster `local`."""
        answer = self.get(f"/api/c/local/{path}", **query)
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: Any) -> Answer:
        if not self.token:
            self.token = self.get("/api/session").json["token"]
        return self.send(
            "POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", TOKEN: self.token}
        )

    def plan(self, action: str, **arguments: Any) -> Any:
        answer = self.post(f"/api/c/local/changes/{action}/plan", arguments)
        assert answer.status == 200, answer.body
        return answer.json

    def execute(self, plan: Any) -> Answer:
        return self.post(f"/api/c/local/changes/{plan['action']}/execute", {"digest": plan["digest"]})

    def change(self, action: str, **arguments: Any) -> Any:
        """Plan a change and execute it."""
        answer = self.execute(self.plan(action, **arguments))
        assert answer.status == 200, answer.body
        return answer.json

    def log_in(self, user: str, password: str) -> Answer:
        answer = self.post("/api/login", {"cluster": "local", "user": user, "password": password})
        if answer.status == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.token = answer.json["token"]
        return answer

    def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body or None, {**self._own_headers(), **(headers or {})})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str, last_id: int | str = "", **query: str | int) -> Iterator[Iterator[Event]]:
        """Open a stream of the cluster `local`; leaving the context closes it.

        `last_id` is the id of the last event that was received before.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            target = f"/api/c/local/{path}" + ("?" + urlencode(query) if query else "")
            again = {"Last-Event-ID": str(last_id)} if last_id else {}
            connection.request("GET", target, headers={**self._own_headers(), **again})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            try:
                yield _events(response)
            finally:
                response.close()
        finally:
            connection.close()

    def _own_headers(self) -> dict[str, str]:
        return {**self.headers, **({"Cookie": self.cookie} if self.cookie else {})}


@dataclass(frozen=True)
class Event:
    name: str
    data: Any
    id: str | None


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in iter(response.readline, b""):
        text = line.decode().rstrip("\n")
        if text and not text.startswith(":"):
            name, _, value = text.partition(": ")
            fields[name] = value
        elif not text and fields:
            yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
            fields = {}


class ConsoleServer:
    """A console that serves on a free port, in a thread."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._listener = listen("127.0.0.1", 0)
        config = uvicorn.Config(
            build_app(settings), log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Browser:
        self._thread.start()
        return Browser(self.port)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(60)
        self._listener.close()


def path_of(*names: str) -> str:
    """Return a path of these names, each of which may contain any character."""
    return "/".join(quote(name, safe="") for name in names)
