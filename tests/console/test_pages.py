"""Every page of the console in a browser: it draws, is accessible in both themes, and fits a telephone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.console.browser import NARROW, Visitor
from tests.console.conftest import Sample

pytestmark = pytest.mark.browser

# Path of each page, and a text that appears only when its data is there.
PAGES = {
    "": "Busiest topics",
    "topics": "web.clicks",
    "topics?search=nothing-like-it": "No topic matches",
    "topics/orders": "Latest",
    "topics/orders?tab=replicas": "with replicas of this topic",
    "topics/orders?tab=settings": "retention.ms",
    "topics/orders?tab=groups": "billing",
    "topics/orders?tab=skew": "Most frequent keys",
    "topics/empty?tab=groups": "No group reads this topic",
    "topics/orders/records": "newest first",
    "topics/orders/records?view=columns": "customer",
    "topics/orders/records?live=1": "Waiting for records",
    "topics/orders/records?mode=search&text=mallory": "Searched everything",
    "topics/orders/records?open=0:10": "Equivalent command",
    "topics/empty/records": "This topic holds no records",
    "topics/orders/records/0/10": "Equivalent command",
    "topics/hostile/records": "onerror",
    "topics/hostile/records?view=columns": "<b>name</b>",
    "topics/orders/produce": "Add header",
    "groups": "shipping",
    "groups/billing": "Lag over time",
    "queues": "workers",
    "queues/workers": "resizer",
    "dead-letters": "orders.dlq",
    "dead-letters/orders.dlq": "payments.gateway.Timeout",
    "pipelines": "sales",
    "pipelines/sales": "clean_orders",
    "transactions": "There are no transactions",
    "nodes": "High watermark",
    "nodes?tab=settings": "min.insync.replicas",
    "nodes/1": "Data folders",
    "access": "producer_byte_rate",
    "access?tab=users": "There are no users",
    "access?tab=acls": "This cluster has no authorizer",
    "sql": "Examples",
    "no-such-page": "There is no page at this address",
}


def open_page(visitor: Visitor, world: Sample, path: str) -> Any:
    page = visitor.open(world.console.page(path))
    page.get_by_text(PAGES[path]).locator("visible=true").first.wait_for()
    return page


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible_in_both_themes_and_fits_a_telephone(world: Sample, visitor: Visitor, path: str) -> None:
    page = open_page(visitor, world, path)
    assert visitor.axe() == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(NARROW)
    page.locator("main h1").wait_for()
    visitor.check_fits()
    assert visitor.axe() == []


def test_the_start_page_leads_to_the_cluster(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.address)
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.url == world.console.page()


def test_links_of_the_navigation_lead_to_every_page(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page())
    for name in ("Topics", "Groups", "Queues", "Dead letters", "Pipelines", "Transactions", "Nodes", "Access", "SQL"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()
        page.get_by_role("heading", name=name, exact=True, level=1).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Access", exact=True, level=1).wait_for()


def test_the_keys_are_listed_and_work(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page())
    page.get_by_role("heading", name="Overview").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Go to dead letters").wait_for()
    assert visitor.axe() == []
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Topics", level=1).wait_for()
    page.get_by_role("link", name="orders", exact=True).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("click")
    page.get_by_text("1 topic", exact=True).wait_for()
    assert page.url.endswith("topics?search=click")


def test_the_theme_is_kept(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page())
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Theme: dark").wait_for()
    page.reload()
    page.get_by_role("button", name="Theme: dark").wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_topics_are_sorted_and_the_address_keeps_it(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics"))
    page.get_by_role("button", name="Partitions").click()
    page.get_by_role("button", name="Partitions").click()
    page.wait_for_url("**/topics?sort=partitions&order=desc")
    page.locator("tbody tr").first.get_by_role("link", name="web.clicks", exact=True).wait_for()
    page.reload()
    page.locator("tbody tr").first.get_by_role("link", name="web.clicks", exact=True).wait_for()


@pytest.mark.parametrize("path", ["", "topics", "topics?search=nothing-like-it"])
def test_a_page_uses_the_data_that_was_requested_with_its_files(world: Sample, visitor: Visitor, path: str) -> None:
    page = open_page(visitor, world, path)
    preloaded = page.evaluate("[...document.querySelectorAll('link[as=fetch]')].map((each) => each.href)")
    assert {each for each in visitor.requests if re.search("/api/c/local/(overview|topics)", each)} <= set(preloaded)


def test_a_refresh_does_not_replace_the_rows(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics"))
    row = page.locator("tbody tr", has=page.get_by_role("link", name="orders", exact=True))
    row.wait_for()
    row.evaluate("element => { element.dataset.mark = 'kept'; }")
    with page.expect_response(lambda each: "/api/c/local/topics" in each.url):
        pass
    assert row.get_attribute("data-mark") == "kept"


def test_what_does_not_exist_is_named(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("topics/nothing"))
    page.get_by_role("alert").get_by_text("nothing").wait_for()
    visitor.open(f"{world.console.address}/c/elsewhere/")
    page.get_by_text("There is no cluster named elsewhere.").wait_for()
    page.get_by_role("link", name="local").click()
    page.get_by_role("heading", name="Overview").wait_for()


def test_dead_letters_are_filtered_by_error_and_opened(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("dead-letters/orders.dlq"))
    page.get_by_role("button", name="KeyError").click()
    page.wait_for_url("**?error=KeyError")
    page.locator("details.letter").nth(2).wait_for()
    page.locator("details.letter").nth(3).wait_for(state="detached")
    page.locator("details.letter").first.click()
    page.get_by_label("Trace").locator("visible=true").wait_for()


def test_sql_is_run_stopped_and_explained(world: Sample, visitor: Visitor) -> None:
    page = visitor.open(world.console.page("sql"))
    editor = page.get_by_label("SQL query")
    editor.fill(
        "SELECT value->>'$.customer' AS customer, count(*) AS n FROM topic('orders') GROUP BY 1 ORDER BY 2 DESC"
    )
    page.keyboard.press("Control+Enter")
    page.get_by_role("table", name="Result").get_by_role("cell", name="eve").wait_for()
    assert "sql=SELECT" in page.url
    assert visitor.axe() == []
    editor.fill("SELECT 9223372036854775807 AS biggest")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("cell", name="9223372036854775807").wait_for()
    editor.fill("SELEKT 1")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("alert").wait_for()
    # Only queries that read records run in DuckDB, which has range(); this one would take hours.
    editor.fill("SELECT sum(a.range * b.range) FROM topic('orders'), range(10000000) a, range(1000000) b")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("The query was stopped.").wait_for()
