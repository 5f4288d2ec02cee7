import threading

import pytest
from starlette.types import ASGIApp

from penstock_console import api, clusters
from penstock_console.app import build_app
from penstock_console.guard import BODY_SIZE_MAX
from tests.support.console import TOKEN, request, settings_for

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def app() -> ASGIApp:
    return build_app(settings_for())


async def token(app: ASGIApp) -> str:
    return str((await request(app, "GET", "/api/session")).json["token"])


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "192.168.1.7"])
async def test_an_address_is_a_known_host(app: ASGIApp, host: str) -> None:
    assert (await request(app, "GET", "/api/session", host=host)).status == 200


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:8080", "localhost.evil.example", "[::1", "a@b"])
async def test_a_foreign_host_is_rejected_on_every_path(app: ASGIApp, host: str) -> None:
    for path in ("/", "/api/session", "/static/app.js", "/c/local/topics"):
        answer = await request(app, "GET", path, host=host)
        assert (answer.status, answer.code) == (421, "UNKNOWN_HOST")


async def test_a_name_of_the_command_line_is_a_known_host() -> None:
    app = build_app(settings_for(host_names=frozenset({"console.example"})))
    assert (await request(app, "GET", "/api/session", host="Console.example:80")).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_rejected(app: ASGIApp, method: str) -> None:
    assert (await request(app, method, "/api/session")).status == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:81"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_a_post_of_another_site_is_rejected(app: ASGIApp, headers: dict[str, str]) -> None:
    given = {**JSON, **headers, TOKEN: await token(app)}
    answer = await request(app, "POST", "/api/logout", given, b"{}")
    assert (answer.status, answer.code) == (403, "FORBIDDEN_ORIGIN")


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_another_site_cannot_read(app: ASGIApp, headers: dict[str, str]) -> None:
    assert (await request(app, "GET", "/api/session", headers)).status == 403


async def test_a_typed_address_is_no_other_site(app: ASGIApp) -> None:
    assert (await request(app, "GET", "/api/session", {"Sec-Fetch-Site": "none"})).status == 200


@pytest.mark.parametrize("given", ["", "wrong", "é"])
async def test_a_post_needs_the_token(app: ASGIApp, given: str) -> None:
    answer = await request(app, "POST", "/api/logout", {**JSON, TOKEN: given}, b"{}")
    assert (answer.status, answer.code) == (403, "INVALID_TOKEN")


async def test_a_post_with_the_token_is_accepted(app: ASGIApp) -> None:
    headers = {**JSON, TOKEN: await token(app), "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert (await request(app, "POST", "/api/logout", headers, b"{}")).status == 200


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_form_of_another_page_cannot_be_posted(app: ASGIApp, kind: str) -> None:
    headers = {"Content-Type": kind, TOKEN: await token(app)}
    assert (await request(app, "POST", "/api/logout", headers, b"{}")).status == 415


async def test_a_large_body_is_rejected_whether_or_not_its_size_is_declared(app: ASGIApp) -> None:
    headers = {**JSON, TOKEN: await token(app)}
    for declared in (str(BODY_SIZE_MAX + 1), "7"):
        body = b" " * (BODY_SIZE_MAX + 1)
        answer = await request(app, "POST", "/api/login", {**headers, "Content-Length": declared}, body)
        assert (answer.status, answer.code) == (413, "TOO_LARGE")


@pytest.mark.parametrize("path", ["/", "/c/local/", "/static/app.js", "/api/session", "/api/nothing", "/nothing"])
async def test_every_response_has_the_security_headers(app: ASGIApp, path: str) -> None:
    headers = (await request(app, "GET", path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("action", ["topic.create/plan", "topic.create/execute", "jobs/x/stop", "anything"])
async def test_nothing_changes_in_a_read_only_console(action: str) -> None:
    app = build_app(settings_for(read_only=True))
    headers = {**JSON, TOKEN: await token(app)}
    answer = await request(app, "POST", f"/api/c/local/changes/{action}", headers, b"{}")
    assert (answer.status, answer.code) == (403, "READ_ONLY")
    assert "--read-only" in answer.json["error"]["message"]


async def test_an_encoded_name_does_not_get_around_read_only() -> None:
    app = build_app(settings_for(read_only=True))
    headers = {**JSON, TOKEN: await token(app)}
    for path in (
        "/api/c/%6cocal/changes/topic.create/plan",
        "/api/c/local/%63hanges/topic.create/plan",
        "/%61pi/c/local/changes/topic.create/plan",
        "//api/c/local/changes/topic.create/plan",
        "/api//c/local/changes/topic.create/plan",
        "/api%2Fc%2Flocal%2Fchanges%2Ftopic.create%2Fplan",
        "/api/c/local/changes%2Ftopic.create/plan",
    ):
        assert (await request(app, "POST", path, headers, b"{}")).status in (403, 404)


async def test_a_console_that_others_can_reach_shows_no_contents_and_changes_nothing() -> None:
    app = build_app(settings_for(host="0.0.0.0"))
    (cluster,) = (await request(app, "GET", "/api/session")).json["clusters"]
    assert cluster["read_only"] and not cluster["contents"]
    answer = await request(app, "GET", "/api/c/local/topics/orders/records")
    assert (answer.status, answer.code) == (403, "CONTENTS_HIDDEN")


async def test_a_login_is_required_and_named(app: ASGIApp) -> None:
    secured = build_app(settings_for(login=True))
    answer = await request(secured, "GET", "/api/c/local/overview")
    assert (answer.status, answer.code) == (401, "LOGIN_REQUIRED")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/c/other/overview", 404),
        ("/api/c/local/nothing", 404),
        ("/api", 404),
        ("/api/c/local/topics/%ff", 400),
        ("/api/c/local/topics?size=0", 400),
        ("/api/c/local/topics?size=x", 400),
        ("/api/c/local/topics?size=9999999999999999999999", 400),
        ("/api/c/local/topics?page=1&page=2", 400),
        ("/api/c/local/topics?sort=evil", 400),
        ("/api/c/local/topics?unknown=1", 400),
        ("/api/c/local/topics/t/records?view=%3Cscript%3E", 400),
        ("/api/c/local/history?series=evil", 400),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
    ],
)
async def test_a_bad_request_is_answered_with_a_sentence(app: ASGIApp, path: str, status: int) -> None:
    answer = await request(app, "GET", path)
    assert answer.status == status
    assert answer.json["error"]["message"].endswith(".")


async def test_a_cluster_that_cannot_be_reached_is_reported(app: ASGIApp) -> None:
    answer = await request(app, "GET", "/api/c/local/topics")
    assert (answer.status, answer.code) == (502, "CONNECTION_REFUSED")
    assert answer.json["error"]["hint"]


async def test_a_page_that_takes_too_long_is_reported(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(api, "PAGE_S_MAX", 0.01)
    monkeypatch.setattr(clusters, "read_metadata_response", lambda connection: is_over.wait())
    answer = await request(app, "GET", "/api/c/local/topics")
    is_over.set()
    assert (answer.status, answer.code) == (504, "REQUEST_TIMED_OUT")


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_object_is_rejected(app: ASGIApp, body: bytes) -> None:
    headers = {**JSON, TOKEN: await token(app)}
    assert (await request(app, "POST", "/api/login", headers, body)).status == 400


async def test_the_home_page_leads_to_the_only_cluster(app: ASGIApp) -> None:
    answer = await request(app, "GET", "/")
    assert (answer.status, answer.headers["location"]) == (302, "/c/local/")
