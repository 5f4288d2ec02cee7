import re
from pathlib import Path

import pytest

from penstock_console.app import build_app
from penstock_console.static_files import FOLDER, StaticFiles
from tests.support.console import request, settings_for

STATIC = FOLDER.resolve()


def addresses(page: bytes) -> list[str]:
    return re.findall(r'"(/static/[^"]+)"', page.decode())


async def test_the_files_of_a_page_are_kept_by_browsers_until_one_changes() -> None:
    app = build_app(settings_for())
    page = await request(app, "GET", "/c/local/topics")
    assert page.headers["cache-control"] == "no-cache"
    assert addresses(page.body)
    for address in addresses(page.body):
        answer = await request(app, "GET", address)
        assert (answer.status, answer.headers["cache-control"]) == (200, "max-age=31536000, immutable")


async def test_a_page_of_an_older_version_gets_the_current_file_and_does_not_keep_it() -> None:
    app = build_app(settings_for())
    current = await request(app, "GET", "/static/app.js")
    older = await request(app, "GET", "/static/0123456789ab/app.js")
    assert older.body == current.body
    assert older.headers["cache-control"] == current.headers["cache-control"] == "no-cache"
    assert older.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/c/local", "/api/c/local/overview"),
        ("/c/local/", "/api/c/local/overview"),
        ("/c/local/?window=1h", "/api/c/local/overview"),
        ("/c/local/topics", "/api/c/local/topics"),
        ("/c/local/topics?sort=rate&order=desc", "/api/c/local/topics?sort=rate&amp;order=desc"),
        ("/c/local/topics?search=%22%3E%3Cscript%3E", "/api/c/local/topics?search=%22%3E%3Cscript%3E"),
    ],
)
async def test_the_data_of_large_pages_is_requested_with_their_files(path: str, data: str) -> None:
    page = await request(build_app(settings_for()), "GET", path)
    assert preloads(page.body) == ["/api/session", data]


@pytest.mark.parametrize("path", ["/c/local/topics/orders", "/c/local/sql"])
async def test_other_pages_request_their_data_themselves(path: str) -> None:
    page = await request(build_app(settings_for()), "GET", path)
    assert preloads(page.body) == ["/api/session"]


def preloads(page: bytes) -> list[str]:
    return re.findall(r'<link rel="preload" as="fetch" href="([^"]+)" crossorigin>', page.decode())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/c/local/", {"app.js", "lib/router.js", "vendor/htm-preact.js", "pages/overview.js", "lib/chart.js"}),
        ("/c/local/dead-letters", {"app.js", "lib/router.js", "vendor/htm-preact.js", "pages/dead_letters.js"}),
        ("/c/local/topics/orders", {"app.js", "lib/router.js", "vendor/htm-preact.js"}),
        ("/c/local/../app", {"app.js", "lib/router.js", "vendor/htm-preact.js"}),
    ],
)
async def test_a_page_names_its_scripts_and_what_they_import(path: str, expected: set[str]) -> None:
    page = await request(build_app(settings_for()), "GET", path)
    named = set(re.findall(r'<link rel="modulepreload" href="/static/[^/]+/([^"]+)">', page.body.decode()))
    assert named >= expected
    assert {each for each in named if each.startswith("pages/")} == {
        each for each in expected if each.startswith("pages/")
    }
    imported = {
        (STATIC / each).parent.joinpath(module).resolve().relative_to(STATIC).as_posix()
        for each in named
        for module in re.findall(r'^import .* from "([^"]+)"', (STATIC / each).read_text(), re.MULTILINE)
    }
    # The library of charts is loaded after the page is drawn.
    assert imported <= named and "vendor/uplot.js" not in named


def test_a_changed_file_gets_a_new_address(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<head><script src="/static/app.js"></script></head>')
    (tmp_path / "app.js").write_text("1;")
    files = StaticFiles(tmp_path)
    before = addresses(bytes(files.page().body))
    assert addresses(bytes(files.page().body)) == before
    (tmp_path / "app.js").write_text("1 + 1;")
    assert addresses(bytes(files.page().body)) != before
