"""A real browser for the tests of the console: Chromium, driven by Playwright.

`Visitor` is one page that remembers what must never happen: a script error, a violation of the
Content-Security-Policy, and a request to another host.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PATIENCE_MS = 60_000
WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_path() -> str | None:
    given = os.environ.get("PENSTOCK_CHROMIUM")
    return given or next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser. Skips the test with a reason if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium_path()
    if path is None:
        pytest.skip("no Chromium is installed; PENSTOCK_CHROMIUM can name one")
    with playwright.sync_playwright() as driver:
        # The sandbox of Chromium needs privileges that containers do not have. The pages are our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A page in a browser context with its own storage and cookies."""

    def __init__(self, browser: Any, *, theme: str = "light", viewport: dict[str, int] | None = None) -> None:
        self.context = browser.new_context(viewport=viewport or WIDE, color_scheme=theme)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda each: self.requests.append(each.url))
        self.page.on("pageerror", lambda each: self.errors.append(str(each)))
        self.page.on("console", self._take_message)

    def _take_message(self, message: Any) -> None:
        # The browser itself reports each response of 4xx and 5xx; the pages display them.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.errors.append(message.text)

    def foreign_requests(self) -> list[str]:
        return [each for each in self.requests if urlsplit(each).hostname not in ("127.0.0.1", "localhost", None)]

    def open(self, address: str) -> Any:
        self.page.goto(address)
        return self.page

    def axe(self) -> list[str]:
        """Return the serious findings of axe-core on the page."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']} ({each['impact']}): {node['html'][:200]} {node['failureSummary'][:300]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def check_fits(self) -> None:
        """Wait until the page is no wider than the window; a chart follows the window with the next frame."""
        self.page.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")

    def close(self) -> None:
        self.context.close()
